"""The lattice of one utterance on one GPU, however long: links and bytes a frame of a minute, of ten and of an hour.

The first minute of a set, over and over, is one utterance, alone on the device, its log-probs there already; beam 17,
lattice beam 8. While it is decoded, what no path within the lattice beam needs is dropped whenever the log of tokens or
the links are full. The lattice must not depend on when that happens: it is compared, as bytes, with the CPU engine's,
and with that of a decoder which begins with a sixteenth of the room. `kept` are the bytes that the arrays of the
lattice take. Memory is that of a process of its own that decodes this utterance alone, in whose host memory its
log-probs lie: what the decoder holds on the device in the end, graph and log-probs included, for nothing is given back
before; its pinned memory; and the largest memory of the process, of which CUDA takes a part. The columns before them
are of a process that asks for the best path alone. The times are of the clock, in turns.
"""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

import arcbeam
from arcbeam.gpu.tuned import search_plan
from benchmarks.adapters import gpu
from benchmarks.data import datasets, graphs
from benchmarks.experiments.long_lattice import ARRAYS
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import long_utterances
from benchmarks.tasks.memory import MIB, peak_bytes

ON_GPU = True
ORDER = 223
TITLE = "The lattice of one utterance, however long"
TAKES = long_utterances.TAKES
KERNELS = ("search", "search_lattice")
OPTIONS = gpu.WIDE
MEMORY = ("device", "pinned", "process")
LESS = 16  # a decoder begins with so much less room
COLUMNS = [
    Column("graph", "graph"),
    Column("beam / max_active", "search"),
    Column("lattice beam", "lattice_beam", "{:g}"),
    Column("minutes", "minutes", "{:g}"),
    Column("frames", "frames", "{:,.0f}"),
    Column("tokens a frame", "tokens", "{:.2f}"),
    Column("links a frame", "links", "{:.2f}"),
    Column("kept, bytes a frame", "bytes_a_frame", "{:.0f}"),
    Column("best path: device, MiB", "best_device_mib", "{:,.0f}"),
    Column("pinned", "best_pinned_mib", "{:,.0f}"),
    Column("process", "best_process_mib", "{:,.0f}"),
    Column("lattice: device, MiB", "device_mib", "{:,.0f}"),
    Column("pinned", "pinned_mib", "{:,.0f}"),
    Column("process", "process_mib", "{:,.0f}"),
    Column("best path, microseconds a frame", "best_us", "{:.2f}"),
    Column("lattice", "lattice_us", "{:.2f}"),
    Column("over the best path's", "ratio", "{:.2f}"),
    Column("spread", "ratio_spread", "{:.2f}"),
    Column("status", "status"),
]


def run(context: Context) -> Iterator[Row]:
    for graph_name, set_name in gpu.WORKLOADS:
        files = graphs.get(graph_name, context.progress)
        dataset = datasets.load(set_name).first(context.utterances)
        what = {"graph": graph_name, "set": set_name, "search": gpu.beam_text(OPTIONS)}
        yield from gpu.rows_or_failure(what, of_lengths, context, graph_name, files, dataset)


def of_lengths(context: Context, graph_name: str, files: graphs.GraphFiles, dataset: datasets.Dataset) -> Iterator[Row]:
    gpu.require()
    lengths = long_utterances.lengths(context)
    for place, utterance in enumerate(long_utterances.utterances(dataset, context)):
        context.progress(f"{graph_name}, {lengths[place]:g} minutes")
        told = (context.utterances, dict(context.options), graph_name, dataset.name, place)
        best_memory, memory = (in_own_process(*told, lattice) for lattice in (False, True))
        arrays = gpu.send([utterance])
        decoder = decoder_of(files.graph)
        [found] = decoder.decode(arrays, lattice=True)
        compare(
            found, decoder_of(files.graph, device="cpu", threads=1).decode([utterance], lattice=True)[0], "the twin's"
        )
        with_less = "that of a decoder which begins with less room"
        compare(found, decoder_with_less_room(files.graph).decode(arrays, lattice=True)[0], with_less)
        turns = {wants: partial(decoder.decode, arrays, lattice=wants) for wants in (False, True)}
        taken = timing.interleave(turns, context.repeats)
        ratio, spread = timing.ratio(taken[True], taken[False])
        frames, lattice = len(utterance), found.lattice
        yield {
            "graph": files.name,
            "set": dataset.name,
            "search": gpu.beam_text(OPTIONS),
            "lattice_beam": OPTIONS.lattice_beam,
            "minutes": lengths[place],
            "frames": frames,
            "tokens": lattice.num_tokens / frames,
            "links": lattice.num_links / frames,
            "bytes_a_frame": sum(getattr(lattice, name).nbytes for name in ARRAYS) / frames,
            **{f"best_{name}_mib": size / MIB for name, size in zip(MEMORY, best_memory, strict=True)},
            **{f"{name}_mib": size / MIB for name, size in zip(MEMORY, memory, strict=True)},
            "best_us": 1e6 * taken[False].seconds / frames,
            "lattice_us": 1e6 * taken[True].seconds / frames,
            "ratio": ratio,
            "ratio_spread": spread,
        }


def compare(found: Any, wanted: Any, whose: str) -> None:
    """Raises Wrong unless both lattices are the same bytes."""
    gpu.compare([found], [wanted])
    for name in ARRAYS:
        if getattr(found.lattice, name).tobytes() != getattr(wanted.lattice, name).tobytes():
            raise gpu.Wrong(
                f"{len(found.lattice.best)} links of the best path: {name} of the lattice differ from {whose}"
            )


def decoder_of(graph: arcbeam.Graph, device: str = "cuda", **more: Any) -> arcbeam.CtcDecoder:
    return gpu.decoder(graph, OPTIONS, device, lattice_beam=OPTIONS.lattice_beam, **more)


def decoder_with_less_room(graph: arcbeam.Graph) -> arcbeam.CtcDecoder:
    """So the log and the links of its lane are full, and pruned, more often."""
    usual = search_plan.first_room(OPTIONS.max_active)
    less = replace(usual, log_entries=max(64, usual.log_entries // LESS), links=max(8, usual.links // LESS))
    with mock.patch.object(search_plan, "first_room", lambda max_active: less):
        return decoder_of(graph)


def in_own_process(
    utterances: int | None, options: dict[str, str], graph: str, dataset: str, place: int, lattice: bool
) -> tuple[int, int, int]:
    """Bytes on the device, pinned, and at most of a fresh process that decodes the utterance of this place."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(memory_of_this_process, utterances, options, graph, dataset, place, lattice).result()


def memory_of_this_process(
    utterances: int | None, options: dict[str, str], graph: str, dataset: str, place: int, lattice: bool
) -> tuple[int, int, int]:
    lengths = long_utterances.lengths(Context(options=options))
    # The shortest says what is repeated; log-probs of lengths between would count.
    two = Context(options={"minutes": f"{lengths[0]},{lengths[place]}"})
    utterance = long_utterances.utterances(datasets.load(dataset).first(utterances), two)[-1]
    decoder = decoder_of(graphs.files(graph).graph)
    found = decoder.decode([utterance], lattice=lattice)
    assert len(found) == 1
    held = decoder.memory()
    return held.device_bytes, held.pinned, peak_bytes()
