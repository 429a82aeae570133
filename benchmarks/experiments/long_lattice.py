"""The lattice of one utterance on one core, however long: links and bytes a frame of a minute, of ten and of an hour.

The first minute of a set, over and over, is one utterance, as in `long`. While it is decoded, what no path within the
lattice beam needs is dropped at intervals, so memory follows what is kept. The lattice must not depend on when that
happens: it is compared, as bytes, with that of a decoder which prunes 16 times as often. `kept` are the bytes that the
arrays of the lattice take; `peak` is by how much the process has grown at most, from before the decoder was made to the
end of that length, log-probs and shorter lengths included.
"""

import gc
from collections.abc import Iterator
from typing import Any
from unittest import mock

import arcbeam
import arcbeam.ctc.engines
from benchmarks.adapters import SearchOptions, gpu
from benchmarks.data import datasets, graphs
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import long_utterances
from benchmarks.tasks.memory import MIB, peak_bytes

ORDER = 26
TITLE = "The lattice of one utterance on a core, however long"
TAKES = long_utterances.TAKES
OPTIONS = SearchOptions(17.0, 10_000)
LATTICE_BEAM = 8.0
ARRAYS = ("links", "states", "steps", "scores", "final_scores", "best")
COLUMNS = [
    Column("graph", "graph"),
    Column("beam / max_active", "search"),
    Column("lattice beam", "lattice_beam", "{:g}"),
    Column("minutes", "minutes", "{:g}"),
    Column("frames", "frames", "{:,.0f}"),
    Column("tokens searched a frame", "searched", "{:,.0f}"),
    Column("tokens a frame", "tokens", "{:.2f}"),
    Column("links a frame", "links", "{:.2f}"),
    Column("kept, bytes a frame", "bytes_a_frame", "{:.0f}"),
    Column("peak, MiB", "peak_mib", "{:,.0f}"),
    Column("time over the best path's", "ratio", "{:.2f}"),
    Column("RTFx", "rtfx", "{:,.0f}"),
]


def run(context: Context) -> Iterator[Row]:
    for graph_name, set_name in gpu.WORKLOADS:
        files = graphs.get(graph_name, context.progress)
        dataset = datasets.load(set_name).first(context.utterances)
        peak = peak_bytes()
        decoder = gpu.decoder(files.graph, OPTIONS, device="cpu", threads=1, lattice_beam=LATTICE_BEAM)
        often = decoder_that_prunes_often(files)
        for minutes, utterance in zip(
            long_utterances.lengths(context), long_utterances.utterances(dataset, context), strict=True
        ):
            context.progress(f"{graph_name}, {minutes:g} minutes")
            best, _ = timed(decoder, utterance, lattice=False)
            took, found = timed(decoder, utterance, lattice=True)
            grown = peak_bytes() - peak
            lattice = found.lattice
            other = often.decode([utterance], lattice=True)[0].lattice
            for name in ARRAYS:
                if getattr(lattice, name).tobytes() != getattr(other, name).tobytes():
                    raise gpu.Wrong(f"{graph_name}, {minutes:g} minutes: {name} depend on when the lattice is pruned")
            frames = len(utterance)
            yield {
                "graph": files.name,
                "set": dataset.name,
                "search": gpu.beam_text(OPTIONS),
                "lattice_beam": LATTICE_BEAM,
                "minutes": minutes,
                "frames": frames,
                "searched": decoder.stats.tokens / decoder.stats.frames,
                "tokens": lattice.num_tokens / frames,
                "links": lattice.num_links / frames,
                "bytes_a_frame": sum(getattr(lattice, name).nbytes for name in ARRAYS) / frames,
                "peak_mib": grown / MIB,
                "ratio": took.cpu[0] / best.cpu[0],
                "rtfx": frames * dataset.frame_shift / took.cpu[0],
            }
            del found, lattice, other
            gc.collect()


def timed(decoder: arcbeam.CtcDecoder, utterance: Any, lattice: bool) -> tuple[timing.Timing, arcbeam.Hypothesis]:
    """How long it takes, and what is found."""
    found: list[arcbeam.Hypothesis] = []
    run = {"it": lambda: found.append(decoder.decode([utterance], lattice=lattice)[0])}
    return timing.interleave(run, 1, warm_up=False)["it"], found[0]


def decoder_that_prunes_often(files: graphs.GraphFiles) -> arcbeam.CtcDecoder:
    with mock.patch.object(arcbeam.ctc.engines, "COLLECT_ABOVE", arcbeam.ctc.engines.COLLECT_ABOVE // 16):
        return gpu.decoder(files.graph, OPTIONS, device="cpu", threads=1, lattice_beam=LATTICE_BEAM)
