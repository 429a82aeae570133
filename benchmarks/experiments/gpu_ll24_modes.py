"""What makes greedy decoding of transducers fast: loops, projections made in advance, subsampling, graphs, compilers.

The network and utterances of `gpu_ll24`, 12 seconds each: 150 frames of 80 ms (8x subsampling) or 300 of 40 ms (4x),
with as many tokens; non-encoder RTFx. Compared with arcbeam, which has one launch: frame-looping (Algorithm 2
of Bataev et al. 2024) in the same kernels and in PyTorch; NeMo 3.0.0's
label-looping without graphs, the same with networks that went through torch.compile, with loops in Python around
graphs, and with a graph of all loops, where projections are made at every step or in advance. All compute in float32
but arcbeam's last column. What differs from the labels that were put in is counted. Every column has a process of its
own, for torch frees memory that NeMo's graph with loops goes on using, when its process captures another graph; they
take turns, and of two decodes in a turn the second is timed.
"""

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from arcbeam import TransducerDecoder
from arcbeam.transducer.decoder import FrameLoopingDecoder
from benchmarks.adapters import gpu
from benchmarks.experiments import gpu_ll24
from benchmarks.harness import seeds
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks.workers import Troupe
from data import synthetic_transducer as synthetic

ON_GPU = True
KERNELS = ("transducer",)
ORDER, PAPER = 231, "LL24"
TITLE = "Transducers: what each step is worth"
BATCHES = gpu_ll24.BATCHES
SECONDS = 12.0
SUBSAMPLING = {8: 0.08, 4: 0.04}  # seconds of a frame
TOKENS_A_SECOND = 3.4
MODELS = ("RNN-T", "TDT")
MODES: dict[str, dict[str, Any]] = {
    "frame_looping": {},
    "eager": {"graphs": "none"},
    "compiled": {"graphs": "none", "compiled": True},
    "partial": {"graphs": "partial"},
    "every_step": {"graphs": "full", "precomputed": False},
    "graph": {"graphs": "full"},
}
# Of arcbeam: the decoder, and its precision.
OURS: dict[str, tuple[type[TransducerDecoder], str]] = {
    "our_frame_looping": (FrameLoopingDecoder, "float32"),
    **{precision: (TransducerDecoder, precision) for precision in gpu_ll24.PRECISIONS},
}
NAMES = (*MODES, *OURS)
COLUMNS = [
    Column("model", "model"),
    Column("subsampling", "subsampling", "{}x"),
    Column("batch", "batch", "{:,}"),
    Column("frame-looping in PyTorch", "frame_looping", "{:,.0f}"),
    Column("NeMo, no graphs", "eager", "{:,.0f}"),
    Column("no graphs, compiled", "compiled", "{:,.0f}"),
    Column("graphs, loops in Python", "partial", "{:,.0f}"),
    Column("graph, projections at every step", "every_step", "{:,.0f}"),
    Column("graph", "graph", "{:,.0f}"),
    Column("arcbeam frame-looping", "our_frame_looping", "{:,.0f}"),
    Column("arcbeam float32", "float32", "{:,.0f}"),
    Column("arcbeam bfloat16", "bfloat16", "{:,.0f}"),
    Column("wrong tokens at most, %", "wrong", "{:.3f}"),
    Column("status", "status"),
]
UNDER = "compute-sanitizer --target-processes all python -m benchmarks --repeats 1"
TAKES = {
    "batches": "sizes to run, as in 1,32",
    "subsampling": "8 or 4; without it both",
    "only": "columns to run, as in graph,float32",
    "without": "columns to leave out, as in compiled,partial",
}


class Contender:
    """One column, in its process."""

    def __init__(self, name: str, frames: Any, texts: list[list[int]], network: tuple[Any, int, Any]) -> None:
        self.frames, self.texts = frames, texts
        arrays, blank, durations = network
        self.decode: Callable[[], Any]
        if name in MODES:
            from benchmarks.adapters import nemo_transducer

            make: Any = nemo_transducer.FrameLooping if name == "frame_looping" else nemo_transducer.NemoTransducer
            self.peer = make(arrays, blank, durations, **MODES[name])
        else:
            gpu.require()
            kind, precision = OURS[name]
            self.decoder = kind.from_arrays(
                arrays, blank, durations=durations, activation="relu", device="cuda", precision=precision
            )

    def prepare(self, batch: int) -> float:
        """Sends the first utterances and decodes them; wrong tokens, %."""
        frames = self.frames[:batch]
        if hasattr(self, "peer"):
            ready = self.peer.prepare(frames)
            self.decode = lambda: self.peer.decode(ready)
            found = [SimpleNamespace(tokens=np.array(row)) for row in self.peer.tokens(self.decode())]
        else:
            [sent] = gpu.send([frames])
            self.decode = lambda: self.decoder.decode(sent)
            found = self.decode()
        return gpu_ll24.wrong(found, self.texts)

    def turn(self) -> float:
        """Seconds of a decode, after another for the device to come over from the process before."""
        self.decode()
        began = time.perf_counter()
        self.decode()
        return time.perf_counter() - began


def run(context: Context) -> Iterator[Row]:
    for subsampling in SUBSAMPLING:
        if context.options.get("subsampling", str(subsampling)) == str(subsampling):
            yield from gpu.rows_or_failure({"subsampling": subsampling}, both_models, context, subsampling)


def both_models(context: Context, subsampling: int) -> Iterator[Row]:
    sizes, shift = synthetic.Sizes(), SUBSAMPLING[subsampling]
    seed = seeds.used("network and utterances", 0)
    batches = [int(n) for n in context.options.get("batches", "").split(",") if n] or list(BATCHES)
    batches = [batch for batch in batches if batch <= (context.utterances or max(batches))]
    count, length = max(batches), round(SECONDS / shift)
    frames, texts, _ = synthetic.utterances(count, length, sizes, rate=TOKENS_A_SECOND * shift, seed=seed)
    left_out = context.options.get("without", "").split(",")
    names = [n for n in NAMES if n not in left_out and n in context.options.get("only", n).split(",")]
    made: dict[tuple[str, str], Any] = {}
    for model in MODELS:
        durations = synthetic.DURATIONS if model == "TDT" else None
        network = synthetic.weights(sizes, tdt=durations is not None, seed=seed), sizes.blank, durations
        made |= {(model, name): (Contender, (name, frames, texts, network)) for name in names}
    troupe = Troupe(made)
    try:
        troupe.start(made)
        troupe.together(made, "prepare", batches[0])  # captures and compilers of both models at a time
        for model in MODELS:
            for batch in batches:
                context.progress(f"{model}, {subsampling}x, batch {batch}")
                yield one(troupe, {"model": model, "subsampling": subsampling, "batch": batch}, names, context.repeats)
    finally:
        troupe.close()


def one(troupe: Troupe, row: Row, names: list[str], repeats: int) -> Row:
    """A row: whoever breaks has no figure in it, and its reason in the status."""
    model, batch = row["model"], row["batch"]
    keys = [(model, name) for name in names]
    troupe.start(keys)
    wrong = troupe.together(keys, "prepare", batch)
    turns = [troupe.in_turn(wrong if turn % 2 else reversed(wrong), "turn") for turn in range(repeats)]
    for key in keys:
        if all(key in turn for turn in turns):
            seconds = [turn[key] for turn in turns]
            row[key[1]] = batch * SECONDS / statistics.median(seconds)  # type: ignore[operator]
            row[f"{key[1]}_ms"] = [1e3 * min(seconds), 1e3 * max(seconds)]
    row["wrong"] = max(wrong.values(), default=None)
    broken = {name: troupe.broken[model, name] for name in names if (model, name) in troupe.broken}
    for name, words in broken.items():
        options = f"--set only={name} --set batches={batch} --set subsampling={row['subsampling']}"
        print(
            f"  {name}: {words}\n  Where in its kernels: {UNDER} {options} gpu_ll24_modes", file=sys.stderr, flush=True
        )
    row["status"] = "; ".join(f"{name}: {words.splitlines()[0]}" for name, words in broken.items()) or None
    return row
