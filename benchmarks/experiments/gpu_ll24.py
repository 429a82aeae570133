"""Transducers on one GPU, non-encoder: batches of 1 to 1,024, RNN-T and TDT; NeMo's label-looping in graphs.

The network has the published size (LSTM and joint network of 640 units, 1,024 tokens), random dense weights, and known
answers (`data.synthetic_transducer`); an utterance has 150 frames of 80 ms and about 40 tokens. The encoder output lies
on the GPU. The clock is read around calls that return when the hypotheses are on the host (NeMo's: on the GPU), in
turns; before, our answers in float32 are those of the CPU, byte for byte, and the labels that were put in; in bfloat16
the tokens unlike the labels are counted. NeMo computes in float32, TF32 off.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from arcbeam import TransducerDecoder
from benchmarks import adapters
from benchmarks.adapters import gpu
from benchmarks.harness import seeds, timing
from benchmarks.harness.registry import Column, Context, Row
from data import synthetic_transducer as synthetic

ON_GPU = True
KERNELS = ("transducer",)
ORDER, PAPER = 230, "LL24"
TITLE = "Transducers: label-looping in one launch"
BATCHES = (1, 4, 32, 128, 512, 1024)
PRECISIONS = ("float32", "bfloat16")
FRAMES, FRAME_SHIFT = 150, 0.08
CHECKED = 128  # utterances that the CPU decodes, too
TAKES = {
    "batches": "sizes to run, as in 1,32",
    "precision": "float32 or bfloat16; without it both",
    "before": "untimed decodes of a contender in each of its turns, so that none feels whose turn was before: 0 or 1",
}
COLUMNS = [
    Column("model", "model"),
    Column("precision", "precision"),
    Column("batch", "batch", "{:,}"),
    Column("milliseconds", "ms", "{:.2f}"),
    Column("spread", "spread", "{:.2f}"),
    Column("RTFx", "rtfx", "{:,.0f}"),
    Column("microseconds a token, of one utterance", "us_a_token", "{:.2f}"),
    Column("RTFx NeMo", "peer_rtfx", "{:,.0f}"),
    Column("ratio", "ratio", "{:.1f}"),
    Column("same tokens as NeMo, %", "equal", "{:.1f}"),
    Column("wrong tokens, %", "wrong", "{:.3f}"),
    Column("status", "status"),
]


def run(context: Context) -> Iterator[Row]:
    for model in ("RNN-T", "TDT"):
        yield from gpu.rows_or_failure({"model": model}, every_batch, context, model)


def precisions_of(context: Context) -> Sequence[str]:
    return (context.options["precision"],) if "precision" in context.options else PRECISIONS


def batches_of(context: Context, usual: Sequence[int]) -> list[int]:
    """Those of the option, or the usual ones; none is larger than the number of utterances."""
    wanted = [int(n) for n in context.options["batches"].split(",")] if "batches" in context.options else usual
    return [batch for batch in wanted if batch <= (context.utterances or max(wanted))]


def every_batch(context: Context, model: str) -> Iterator[Row]:
    gpu.require()
    sizes = synthetic.Sizes()
    seed = seeds.used("network and utterances", 0)
    durations = synthetic.DURATIONS if model == "TDT" else None
    arrays = synthetic.weights(sizes, tdt=durations is not None, seed=seed)
    options: dict[str, Any] = {"durations": durations, "activation": "relu"}
    decoders = {
        precision: TransducerDecoder.from_arrays(arrays, sizes.blank, device="cuda", precision=precision, **options)
        for precision in precisions_of(context)
    }
    twin = TransducerDecoder.from_arrays(arrays, sizes.blank, device="cpu", **options)
    theirs, missing = None, None
    try:
        from benchmarks.adapters.nemo_transducer import NemoTransducer

        theirs = NemoTransducer(arrays, sizes.blank, durations)
    except (ImportError, OSError) as error:
        missing = f"NeMo missing: {adapters.why(error)}"
    batches = batches_of(context, BATCHES)
    frames, texts, _ = synthetic.utterances(max(batches), FRAMES, sizes, seed=seed)
    for batch in batches:
        context.progress(f"{model}, batch {batch}")
        [sent] = gpu.send([frames[:batch]])
        found = {precision: decoder.decode(sent) for precision, decoder in decoders.items()}
        if "float32" in found:
            check(found["float32"], twin.decode(frames[: min(batch, CHECKED)]), texts)
        contenders = {name: lambda d=decoder, x=sent: d.decode(x) for name, decoder in decoders.items()}
        said: list[list[int]] = []
        if theirs is not None:
            try:
                ready = theirs.prepare(frames[:batch])
                said = theirs.tokens(theirs.decode(ready))
                contenders["theirs"] = lambda r=ready, peer=theirs: peer.decode(r)
            except Exception as error:  # our rows are worth having without its own
                theirs, missing = None, f"NeMo failed: {adapters.why(error)}"
        took = timing.interleave(contenders, 3 * context.repeats, before=int(context.options.get("before", 0)))
        seconds = batch * FRAMES * FRAME_SHIFT
        for precision, answers in found.items():
            ours = took[precision]
            row: Row = {"model": model, "precision": precision, "batch": batch, "frames": FRAMES, "status": missing}
            row |= context.options
            row |= {
                "wrong": wrong(answers, texts),
                "ms": 1e3 * ours.seconds,
                "spread": [1e3 * s for s in ours.spread()],
                "rtfx": seconds / ours.seconds,
                "us_a_token": 1e6 * ours.seconds / max(1, max(len(h.tokens) for h in answers)),
            }
            if theirs is not None:
                row["equal"] = 100 * sum(a == h.tokens.tolist() for a, h in zip(said, answers, strict=True)) / batch
                row["peer_rtfx"] = seconds / took["theirs"].seconds
                row["ratio"], row["ratio_spread"] = timing.ratio(took["theirs"], ours)
            yield row


def wrong(found: list[Any], texts: list[list[int]]) -> float:
    """Percentage of the labels that were put in and did not come out: by edit distance."""
    errors = 0
    for one, text in zip(found, texts, strict=False):
        row = np.arange(len(text) + 1)
        for token in one.tokens.tolist():
            best = np.minimum(row[1:] + 1, row[:-1] + (np.array(text) != token))
            row = np.minimum.accumulate(np.concatenate([[row[0] + 1], best]) - np.arange(len(row))) + np.arange(
                len(row)
            )
        errors += int(row[-1])
    return 100 * errors / max(1, sum(map(len, texts[: len(found)])))


def check(found: list[Any], wanted: list[Any], texts: list[list[int]]) -> None:
    """Raises Wrong unless the answers are the CPU's bytes, and the labels that were put in."""
    compare(found, wanted)
    for i, (one, text) in enumerate(zip(found, texts, strict=False)):
        if one.tokens.tolist() != text and i < len(found):
            raise gpu.Wrong(f"utterance {i}: {np.size(one.tokens)} tokens, not the {len(text)} that were put in")


def compare(found: list[Any], wanted: list[Any]) -> None:
    """Raises Wrong unless the answers are the CPU's bytes."""
    for i, (one, other) in enumerate(zip(found, wanted, strict=False)):
        for name in ("tokens", "frames", "log_probs"):
            if getattr(one, name).tobytes() != getattr(other, name).tobytes():
                raise gpu.Wrong(f"utterance {i}: its {name} are not those of the CPU")
        if one.state.hidden.tobytes() != other.state.hidden.tobytes():
            raise gpu.Wrong(f"utterance {i}: its state is not that of the CPU")
