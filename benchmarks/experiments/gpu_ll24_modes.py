"""What makes greedy decoding of transducers fast: loops, projections made in advance, subsampling, graphs, compilers.

The network and utterances of `gpu_ll24`, 12 seconds each: 150 frames of 80 ms (8x subsampling) or 300 of 40 ms (4x),
with as many tokens; non-encoder RTFx. Beside arcbeam, which has one launch: NeMo 3.0.0's label-looping with a graph of
all loops, the same with projections made at every step, with loops in Python around graphs, without graphs, and without
graphs but with networks that went through torch.compile; and for RNN-T frame-looping in PyTorch, without graphs. All
compute in float32 but arcbeam's second column. What differs from the labels that were put in is counted.
"""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from arcbeam import TransducerDecoder
from benchmarks import adapters, gpu, seeds, timing
from benchmarks.experiments import gpu_ll24
from benchmarks.registry import Column, Context, Row
from data import synthetic_transducer as synthetic

ON_GPU = True
KERNELS = ("transducer",)
ORDER, PAPER = 231, "LL24"
TITLE = "Transducers: what each step is worth"
BATCHES = (1, 4, 32, 128, 512)
SECONDS = 12.0
SUBSAMPLING = {8: 0.08, 4: 0.04}  # seconds of a frame
TOKENS_A_SECOND = 3.4
PEERS: dict[str, dict[str, Any]] = {
    "graph": {"graphs": "full"},
    "every_step": {"graphs": "full", "precomputed": False},
    "partial": {"graphs": "partial"},
    "eager": {"graphs": "none"},
    "compiled": {"graphs": "none", "compiled": True},
}
COLUMNS = [
    Column("model", "model"),
    Column("subsampling", "subsampling", "{}x"),
    Column("batch", "batch", "{:,}"),
    Column("arcbeam float32", "float32", "{:,.0f}"),
    Column("arcbeam bfloat16", "bfloat16", "{:,.0f}"),
    Column("NeMo, graph", "graph", "{:,.0f}"),
    Column("projections at every step", "every_step", "{:,.0f}"),
    Column("graphs, loops in Python", "partial", "{:,.0f}"),
    Column("no graphs", "eager", "{:,.0f}"),
    Column("no graphs, compiled", "compiled", "{:,.0f}"),
    Column("frame-looping in PyTorch", "frame_looping", "{:,.0f}"),
    Column("wrong tokens at most, %", "wrong", "{:.3f}"),
    Column("status", "status"),
]
TAKES = {"batches": "sizes to run, as in 1,32", "without": "columns to leave out, as in compiled,partial"}


def run(context: Context) -> Iterator[Row]:
    for subsampling in SUBSAMPLING:
        for model in ("RNN-T", "TDT"):
            what = {"model": model, "subsampling": subsampling}
            yield from gpu.rows_or_failure(what, every_batch, context, what)


def every_batch(context: Context, what: dict[str, Any]) -> Iterator[Row]:
    gpu.require()
    sizes, shift = synthetic.Sizes(), SUBSAMPLING[what["subsampling"]]
    seed = seeds.used("network and utterances", 0)
    durations = synthetic.DURATIONS if what["model"] == "TDT" else None
    arrays = synthetic.weights(sizes, tdt=durations is not None, seed=seed)
    ours = {
        precision: TransducerDecoder.from_arrays(
            arrays, sizes.blank, durations=durations, activation="relu", device="cuda", precision=precision
        )
        for precision in gpu_ll24.PRECISIONS
    }
    missing: dict[str, str] = {}
    peers = peers_of(arrays, sizes.blank, durations, context.options.get("without", "").split(","), missing)
    batches = [int(n) for n in context.options.get("batches", "").split(",") if n] or list(BATCHES)
    batches = [batch for batch in batches if batch <= (context.utterances or max(batches))]
    frames, texts, _ = synthetic.utterances(
        max(batches), round(SECONDS / shift), sizes, rate=TOKENS_A_SECOND * shift, seed=seed
    )
    for batch in batches:
        context.progress(f"{what}, batch {batch}")
        [sent] = gpu.send([frames[:batch]])
        contenders: dict[str, Any] = {name: lambda d=decoder, x=sent: d.decode(x) for name, decoder in ours.items()}
        wrong = max(gpu_ll24.wrong(decode(), texts) for decode in contenders.values())
        for name, peer in list(peers.items()):
            try:
                ready = peer.prepare(frames[:batch])
                said = peer.tokens(peer.decode(ready))
                contenders[name] = lambda p=peer, r=ready: p.decode(r)
            except Exception as error:  # the other columns are worth having without it
                del peers[name]
                missing[name] = adapters.why(error)
                continue
            wrong = max(wrong, gpu_ll24.wrong([SimpleNamespace(tokens=np.array(row)) for row in said], texts))
        took = timing.interleave(contenders, context.repeats)
        row: Row = {**what, "batch": batch, "wrong": wrong}
        row |= {name: batch * SECONDS / times.seconds for name, times in took.items()}
        row |= {f"{name}_ms": [1e3 * s for s in times.spread()] for name, times in took.items()}
        row["status"] = "; ".join(f"{name}: {why}" for name, why in missing.items()) or None
        yield row


def peers_of(arrays: Any, blank: int, durations: Any, without: list[str], missing: dict[str, str]) -> dict[str, Any]:
    """What can be made; why the others cannot goes into `missing`."""
    found: dict[str, Any] = {}
    try:
        from benchmarks import nemo_transducer
    except (ImportError, OSError) as error:
        missing["NeMo"] = adapters.why(error)
        return found
    for name, options in PEERS.items():
        if name not in without:
            try:
                found[name] = nemo_transducer.NemoTransducer(arrays, blank, durations, **options)
            except (ImportError, OSError) as error:
                missing[name] = adapters.why(error)
    if durations is None and "frame_looping" not in without:
        found["frame_looping"] = nemo_transducer.FrameLooping(arrays, blank)
    return found
