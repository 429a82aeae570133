"""The lattice of one utterance on one core, however long: links and bytes a frame of a minute, of ten and of an hour.

The first minute of a set, over and over, is one utterance. While it is decoded, what no path within the
lattice beam needs is dropped at intervals, so memory follows what is kept. The lattice must not depend on when that
happens: it is compared, as bytes, with that of a decoder which prunes 16 times as often. `kept` are the bytes that the
arrays of the lattice take; `peak` is the largest memory of a process of its own that decodes this utterance alone, the
graph and the log-probs included, and the column before it that of one which requests the best path alone.
"""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt

import arcbeam
import arcbeam.ctc.engines
from benchmarks.adapters import SearchOptions, gpu
from benchmarks.data import datasets, graphs
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks.memory import MIB, peak_bytes

ORDER = 26
TITLE = "The lattice of one utterance on a core, however long"
TAKES = {"minutes": "lengths of the utterance, as 1,10,60"}
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
    Column("peak of the best path, MiB", "best_peak_mib", "{:,.0f}"),
    Column("peak, MiB", "peak_mib", "{:,.0f}"),
    Column("time over the best path's", "ratio", "{:.2f}"),
    Column("RTFx", "rtfx", "{:,.0f}"),
]


def lengths(context: Context) -> list[float]:
    """Minutes of the utterances, the shortest first."""
    return sorted(float(minutes) for minutes in context.options.get("minutes", "1,10,60").split(","))


def utterances_of(dataset: datasets.Dataset, context: Context) -> list[npt.NDArray[np.float32]]:
    """float32[frames, columns] of each length: the set's first, and that over and over.

    So all have the same speech, and a frame the same work.
    """
    frames = [max(1, round(60 * minutes / dataset.frame_shift)) for minutes in lengths(context)]
    first = dataset.log_probs[: frames[0]]
    return [np.ascontiguousarray(np.tile(first, (-(-n // len(first)), 1))[:n], np.float32) for n in frames]


def run(context: Context) -> Iterator[Row]:
    for graph_name, set_name in gpu.WORKLOADS:
        files = graphs.get(graph_name, context.progress)
        dataset = datasets.load(set_name).first(context.utterances)
        decoder = gpu.decoder(files.graph, OPTIONS, device="cpu", threads=1, lattice_beam=LATTICE_BEAM)
        often = decoder_that_prunes_often(files)
        minutes_of_each = lengths(context)
        spoken = utterances_of(dataset, context)
        for place, (minutes, utterance) in enumerate(zip(minutes_of_each, spoken, strict=True)):
            context.progress(f"{graph_name}, {minutes:g} minutes")
            best, _ = timed(decoder, utterance, lattice=False)
            took, found = timed(decoder, utterance, lattice=True)
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
                "best_peak_mib": peak_mib(context, graph_name, set_name, place, False),
                "peak_mib": peak_mib(context, graph_name, set_name, place, True),
                "ratio": took.cpu[0] / best.cpu[0],
                "rtfx": frames * dataset.frame_shift / took.cpu[0],
            }


def peak_mib(context: Context, graph: str, dataset: str, place: int, lattice: bool) -> float:
    """MiB of a fresh process that decodes the utterance of this place among the lengths."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        told = (context.utterances, dict(context.options), graph, dataset, place, lattice)
        return pool.submit(_peak_of_this_process, *told).result()


def _peak_of_this_process(
    utterances: int | None, options: dict[str, str], graph: str, dataset: str, place: int, lattice: bool
) -> float:
    minutes_of_each = lengths(Context(options=options))
    # The shortest says what is repeated; log-probs of lengths between would count.
    two = Context(options={"minutes": f"{minutes_of_each[0]},{minutes_of_each[place]}"})
    utterance = utterances_of(datasets.load(dataset).first(utterances), two)[-1]
    decoder = gpu.decoder(graphs.files(graph).graph, OPTIONS, device="cpu", threads=1, lattice_beam=LATTICE_BEAM)
    decoder.decode([utterance], lattice=lattice)
    return peak_bytes() / MIB


def timed(decoder: arcbeam.CtcDecoder, utterance: Any, lattice: bool) -> tuple[timing.Timing, arcbeam.Hypothesis]:
    """How long it takes, and what is found."""
    found: list[arcbeam.Hypothesis] = []
    run = {"it": lambda: found.append(decoder.decode([utterance], lattice=lattice)[0])}
    return timing.interleave(run, 1, warm_up=False)["it"], found[0]


def decoder_that_prunes_often(files: graphs.GraphFiles) -> arcbeam.CtcDecoder:
    with mock.patch.object(arcbeam.ctc.engines, "COLLECT_ABOVE", arcbeam.ctc.engines.COLLECT_ABOVE // 16):
        return gpu.decoder(files.graph, OPTIONS, device="cpu", threads=1, lattice_beam=LATTICE_BEAM)
