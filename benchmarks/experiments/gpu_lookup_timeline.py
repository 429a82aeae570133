"""When lanes wait for look-ups by the host, and what the others do meanwhile: one decode, as the host's threads saw it,
and one of `host` with a cache as CUPTI saw it: the kernel, and on two streams the copies that bring answers.

With a `spread`, it is the decode of median time among as many as there were turns; without, there was one.

A lane is said to wait from the moment a thread sees its questions until the last of its answers is written; what
questions and answers take over the bus besides is in `waits by the device's clock`, of a decode of its own. The
placement `host` has the graph's large model, `cpu` KenLM's model of the same ARPA. The figure shows a thousandth of a
second from the middle of the decode with a cache: some lanes, searching or waiting, and the threads, answering; and
below it one from the middle of the profiled decode, which is another: each stream, the words that count among them.
A `turn` is the time from one copy of a stream to its next. Where the profiler cannot be used a row says why. Arcs
settled and `of the reads`, of the kernel's time: as in `gpu_arcs`; `of the pinned copy`: the bytes a second of a copy
over those of one of 256 MiB, measured in the same process.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import arcbeam
from benchmarks.adapters import SearchOptions, gpu
from benchmarks.data import datasets, graphs
from benchmarks.engine import ceilings, profiler, rescoring_models
from benchmarks.harness.registry import Column, Context, Row

ON_GPU = True
KERNELS = ("asking", "asking_arcs")
ORDER = 238
TITLE = "When lanes wait for the host"
GRAPH, SET = "spm512-3gram", "workload-512"
UTTERANCES, LIMIT = 264, 3
MOST = 1 << 18  # spans a thread
WINDOW_NS, SHOWN = 1_000_000, 16
COLUMNS = [
    Column("beam / max_active", "search"),
    Column("the model", "placement"),
    Column("cache, MB", "cache_mb", "{:.1f}"),
    Column("milliseconds", "ms", "{:.2f}"),
    Column("spread", "spread", "{:.2f}"),
    Column("lanes", "lanes"),
    Column("threads", "threads"),
    Column("rounds", "rounds", "{:,}"),
    Column("questions a round", "questions", "{:.1f}"),
    Column("a round, us", "round_us", "{:.1f}"),
    Column("lanes that wait", "waiting", "{:.1f}"),
    Column("some lane waits, % of the time", "any", "{:.1f}"),
    Column("a thread answers, % of the time", "busy", "{:.1f}"),
    Column("waits by the device's clock, %", "device_waiting", "{:.1f}"),
    Column("the kernel by the profiler, ms", "kernel_ms", "{:.2f}"),
    Column("copies", "copies", "{:,}"),
    Column("streams", "streams"),
    Column("bytes a copy", "copy_bytes", "{:,.0f}"),
    Column("a copy, us", "copy_us", "{:.1f}"),
    Column("a turn, us", "turn_us", "{:.1f}"),
    Column("of the pinned copy", "of_copy", "{:.3f}"),
    *ceilings.SETTLED,
    Column("status", "status"),
]

Spans = npt.NDArray[np.int64]  # [n, 6]: thread, lane, round, questions, began, ended (ns)


def run(context: Context) -> Iterator[Row]:
    files = graphs.get(GRAPH, context.progress)
    dataset = gpu.cycled(datasets.load(SET, UTTERANCES), context.utterances or UTTERANCES)
    models = rescoring_models.load(GRAPH)
    kenlm = None
    try:
        kenlm = rescoring_models.kenlm()
    except arcbeam.MissingDependencyError as error:
        yield {"placement": "cpu", "status": f"missing: {error}"}
    for options in gpu.BEAMS:
        for placement, large in (("host", models["language_model"]), ("cpu", kenlm)):
            if large is not None:
                what = {"search": gpu.beam_text(options), "placement": placement}
                chosen = models | {"language_model": large}
                caches = (0, models["language_model"].info().bytes // 10)
                yield from gpu.rows_or_failure(what, several, context, files, dataset, options, chosen, caches, what)


def several(
    context: Context,
    files: graphs.GraphFiles,
    dataset: datasets.Dataset,
    options: SearchOptions,
    models: dict[str, Any],
    caches: tuple[int, ...],
    what: Row,
) -> Iterator[Row]:
    """Without a cache, and with one of a tenth of the model that is warm."""
    reads, copies = ceilings.reads_of(files.graph, context.repeats), ceilings.copies_of(context.repeats)
    arrays = gpu.send(dataset.utterances)
    rescoring = models | {"hypotheses_per_state": LIMIT}
    for cache in caches:
        decoder = gpu.decoder(files.graph, options, placement=what["placement"], arc_cache=cache, **rescoring)
        gpu.check(decoder.decode(arrays), files.graph, options, dataset.utterances, **rescoring)
        decoder.decode(arrays)
        device_waiting = decoder.stats.lookup_waiting
        lookups = decoder._engine.host_lookups
        turns = []
        for _ in range(context.repeats):
            lookups.trace(MOST)
            decoder.decode(arrays)
            turns.append(split(lookups.traced()))
            lookups.trace(0)
        (spans, watches), spread = median_turn(turns)
        row = what | {"cache_mb": cache / 1e6, "device_waiting": 100 * (device_waiting or 0.0)} | told(spans, watches)
        row["spread"] = spread
        arcs = decoder.stats.leaving_arcs
        row |= reads.share(arcs, row["ms"] / 1e3)  # type: ignore[operator]
        yield row | ({"shown": window(spans, watches)} if cache else {})
        if cache and what["placement"] == "host":
            seen = profiler.profiled(lambda: decoder.decode(arrays), "arcbeam_asking", WINDOW_NS / 1e3)  # noqa: B023
            if "kernel_ms" in seen:
                seen |= reads.share(arcs, seen["kernel_ms"] / 1e3)  # type: ignore[operator]
            if seen.get("copy_us"):
                seen["of_copy"] = 1e6 * seen["copy_bytes"] / seen["copy_us"] / copies  # type: ignore[operator]
            yield what | {"cache_mb": cache / 1e6} | seen


def split(traced: list[tuple[int | None, int, int, int, int, int]]) -> tuple[Spans, Spans]:
    """What threads answered, in the order in which it began, and when a kernel ran."""
    answered = [one for one in traced if one[0] is not None]
    watches = [(0, *one[1:]) for one in traced if one[0] is None]
    spans, kernels = (np.array(rows, np.int64).reshape(-1, 6) for rows in (answered, watches))
    return spans[np.argsort(spans[:, 4], kind="stable")], kernels


def median_turn(turns: list[tuple[Spans, Spans]]) -> tuple[tuple[Spans, Spans], list[float]]:
    """The decode of median time (of two, the faster), and the shortest and longest of all, in milliseconds."""
    by_time = sorted((ran_ms(watches), at) for at, (_, watches) in enumerate(turns))
    return turns[by_time[(len(turns) - 1) // 2][1]], [by_time[0][0], by_time[-1][0]]


def ran_ms(watches: Spans) -> float:
    """How long the kernels of a decode ran."""
    return int((watches[:, 5] - watches[:, 4]).sum()) / 1e6


def waits_of(spans: Spans) -> Spans:
    """int64[rounds, 4]: lane, round, when the lane began to wait, when it had all answers."""
    order = np.lexsort((spans[:, 2], spans[:, 1]))
    lanes, rounds = spans[order, 1], spans[order, 2]
    first = np.flatnonzero(np.r_[True, (np.diff(lanes) != 0) | (np.diff(rounds) != 0)]) if len(order) else order
    began = np.minimum.reduceat(spans[order, 4], first) if len(order) else order
    ended = np.maximum.reduceat(spans[order, 5], first) if len(order) else order
    return np.stack([lanes[first], rounds[first], began, ended], axis=1)


def covered(began: Spans, ended: Spans) -> int:
    """Nanoseconds that lie in any of the spans."""
    order = np.argsort(began, kind="stable")
    reached = np.maximum.accumulate(ended[order])
    starts = np.maximum(began[order], np.r_[np.int64(0), reached[:-1]])
    return int(np.maximum(0, reached - starts).sum())


def window(spans: Spans, watches: Spans) -> list[list[object]]:
    """[lane or thread, began, ended] of what falls into a window from the middle of the first launch, ns after it."""
    begin = int(watches[0, 4] + watches[0, 5]) // 2
    inside = [wait for wait in waits_of(spans) if wait[3] > begin and wait[2] < begin + WINDOW_NS]
    shown = sorted({int(wait[0]) for wait in inside})[:SHOWN]
    waits = ((f"lane {lane}", began, ended) for lane, _, began, ended in inside if lane in shown)
    answers = ((f"thread {thread}", began, ended) for thread, _, _, _, began, ended in spans)
    return [
        [name, int(began) - begin, int(ended) - begin]
        for name, began, ended in (*waits, *answers)
        if ended > begin and began < begin + WINDOW_NS
    ]


def told(spans: Spans, watches: Spans) -> Row:
    """The figures of a row."""
    waits = waits_of(spans)
    ran = int((watches[:, 5] - watches[:, 4]).sum())
    threads = 1 + int(spans[:, 0].max(initial=0))
    return {
        "ms": ran / 1e6,
        "lanes": 1 + int(spans[:, 1].max(initial=0)),
        "threads": threads,
        "rounds": len(waits),
        "questions": int(spans[:, 3].sum()) / max(1, len(waits)),
        "round_us": float(np.median(waits[:, 3] - waits[:, 2])) / 1e3 if len(waits) else 0.0,
        "waiting": int((waits[:, 3] - waits[:, 2]).sum()) / ran,
        "any": 100 * covered(waits[:, 2], waits[:, 3]) / ran,
        "busy": 100 * int((spans[:, 5] - spans[:, 4]).sum()) / (ran * threads),
    }


def draw(rows: list[Row], path: Path) -> None:
    """Bars: of the first row with a cache, lanes that wait and threads that answer; of the profiled one, copies."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    row = next((row for row in rows if row.get("cache_mb") and row.get("shown")), None)
    if row is None:
        return
    profile = next((row for row in rows if row.get("copied")), None)
    bars: dict[str, list[tuple[float, float]]] = {}
    for name, began, ended in row["shown"]:  # type: ignore[attr-defined]
        bars.setdefault(name, []).append((began / 1e3, (ended - began) / 1e3))
    names = sorted(bars, key=lambda name: (name.split()[0], int(name.split()[1])))[::-1]
    copies = {} if profile is None else copies_of(profile)
    heights = [1.2 + 0.22 * len(names), 0.8 + 0.22 * len(copies)][: 1 if profile is None else 2]
    figure = Figure(figsize=(9.0, sum(heights)), layout="constrained")
    FigureCanvasAgg(figure)
    each = figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    axes = each[0]
    axes.set_xlim(0, WINDOW_NS / 1e3)
    for at, name in enumerate(names):
        is_lane = name.startswith("lane")
        if is_lane:
            axes.broken_barh([(0, WINDOW_NS / 1e3)], (at - 0.35, 0.7), color="tab:blue", alpha=0.25)
        axes.broken_barh(bars[name], (at - 0.35, 0.7), color="tab:red" if is_lane else "tab:green")
    axes.set_yticks(range(len(names)), labels=names, fontsize=7)
    lanes = "lanes: blue searches, red waits for the host; " if any(name.startswith("lane") for name in names) else ""
    axes.set_xlabel(f"microseconds; {lanes}threads: green answers")
    axes.set_title(f"placement {row['placement']!r}, beam {row['search']}, cache of {row['cache_mb']:.0f} MB")
    if profile is not None:
        axes = each[1]
        axes.set_xlim(0, WINDOW_NS / 1e3)
        for at, (name, parts) in enumerate(copies.items()):
            axes.broken_barh(parts, (at - 0.35, 0.7), color="tab:blue" if name == "kernel" else "tab:orange")
        axes.set_yticks(range(len(copies)), labels=list(copies), fontsize=7)
        axes.set_xlabel("microseconds; by the profiler: the kernel, and copies to the device")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, metadata={"Software": None})


def copies_of(profile: Row) -> dict[str, list[tuple[float, float]]]:
    """Of a profiled decode: bars of streams, those that count first, and of the kernel."""
    bars: dict[str, list[tuple[float, float]]] = {}
    for stream, began, took, count in sorted(profile["copied"]):  # type: ignore[call-overload]
        what = "counts" if count <= profiler.WORD else "answers"
        bars.setdefault(f"stream {stream}: {what}", []).append((began, took))
    began, ended = profile["kernel_from_to"]  # type: ignore[misc]
    return {name: bars[name] for name in sorted(bars, key=lambda name: name.split()[-1])[::-1]} | {
        "kernel": [(began, ended - began)]
    }
