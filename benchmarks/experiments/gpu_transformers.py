"""Transducers of Hugging Face Transformers on one GPU: ``generate()``, and the decoder of `arcbeam.from_transformers`.

The model is Transformers' own ParakeetForRNNT or ParakeetForTDT with the network of `gpu_ll24` (LSTM and joint network
of 640 units, 1,024 tokens); its encoder is left out of both: an utterance is 150 frames of encoder output of 80 ms on
the GPU, with about 40 tokens. Both compute in float32, TF32 off. Before anything is timed, both answers are the tokens
that were put in, but for what ``generate()`` gets wrong, which is counted. In turns, by the clock, until the tokens of
all utterances are lists on the host.
"""

from collections.abc import Iterator

import arcbeam
from benchmarks import adapters
from benchmarks.adapters import gpu
from benchmarks.harness import seeds, timing
from benchmarks.harness.registry import Column, Context, Row
from data import synthetic_transducer as synthetic

ON_GPU = True
KERNELS = ("transducer",)
ORDER = 235
TITLE = "Transducers of Hugging Face Transformers"
BATCHES = (1, 32, 128)
FRAMES, FRAME_SHIFT = 150, 0.08
COLUMNS = [
    Column("model", "model"),
    Column("batch", "batch"),
    Column("milliseconds", "ms", "{:.2f}"),
    Column("milliseconds of generate()", "peer_ms", "{:,.0f}"),
    Column("ratio", "ratio", "{:,.0f}"),
    Column("spread", "ratio_spread", "{:,.0f}"),
    Column("utterances with the tokens of generate(), %", "equal", "{:.1f}"),
    Column("status", "status"),
]


def run(context: Context) -> Iterator[Row]:
    for model in ("RNN-T", "TDT"):
        yield from gpu.rows_or_failure({"model": model}, every_batch, context, model)


def every_batch(context: Context, model: str, device: str = "cuda") -> Iterator[Row]:
    if device == "cuda":
        gpu.require()
    try:
        import torch

        from benchmarks.adapters.transformers_transducer import TransformersTransducer
    except (ImportError, OSError) as error:
        yield {"model": model, "status": f"missing: {adapters.why(error)}"}
        return
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    sizes, seed = synthetic.Sizes(), seeds.used("network and utterances", 0)
    durations = synthetic.DURATIONS if model == "TDT" else None
    theirs = TransformersTransducer(
        synthetic.weights(sizes, tdt=durations is not None, seed=seed), sizes.blank, durations, device
    )
    ours = arcbeam.from_transformers(theirs.model, device=device)
    assert isinstance(ours, arcbeam.TransducerDecoder)
    batches = [batch for batch in BATCHES if batch <= (context.utterances or max(BATCHES))]
    frames, texts, _ = synthetic.utterances(max(batches), FRAMES, sizes, seed=seed)
    for batch in batches:
        context.progress(f"{model}, batch {batch}")
        encoded = torch.from_numpy(frames[:batch]).to(device)
        found = [one.tokens.tolist() for one in ours.decode(encoded)]
        if found != texts[:batch]:
            raise gpu.Wrong(f"{model}, batch {batch}: the tokens are not those that were put in")
        said = theirs.tokens(theirs.generate(encoded))
        took = timing.interleave(
            {
                "ours": lambda x=encoded: [one.tokens.tolist() for one in ours.decode(x)],
                "theirs": lambda x=encoded: theirs.tokens(theirs.generate(x)),
            },
            context.repeats,
        )
        ratio, spread = timing.ratio(took["theirs"], took["ours"])
        yield {
            "model": model,
            "batch": batch,
            "ms": 1e3 * took["ours"].seconds,
            "peer_ms": 1e3 * took["theirs"].seconds,
            "wall": took["ours"].wall,
            "peer_wall": took["theirs"].wall,
            "ratio": ratio,
            "ratio_spread": spread,
            "equal": 100 * sum(a == b for a, b in zip(said, found, strict=True)) / batch,
            "rtfx": batch * FRAMES * FRAME_SHIFT / took["ours"].seconds,
        }
