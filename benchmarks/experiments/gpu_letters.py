"""Letters on one GPU, with frames of 20 ms as wav2vec 2, HuBERT and MMS have them; riva's decode_mbr.

Utterances are pieces of 200 frames (4 s), cut from real speech one after another, all in one call: 688 of them are 46
minutes, and 4,128 are the same six times. `best path` is from the call until the paths are on the host; `lists` has
1,000 phrases for each of the first 264, and `rescored` the graph's language model once more, resident on the device, as
a large one would be. First all answers are compared with the CPU twin's as bytes. Log-probs (float32) are on the
device. Times are medians of turns. riva has batches of 264 and the faster one of two settings; until its words are on
the host. `of best path` is the speed that stays, within each turn. `goal` is what is aimed at on an H200.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import arcbeam
from benchmarks import adapters
from benchmarks.adapters import SearchOptions, gpu
from benchmarks.data import datasets, graphs
from benchmarks.engine import rescoring_models
from benchmarks.experiments import gpu_riva
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks.phrase_lists import PHRASES, Vocabulary

ON_GPU = True
KERNELS = ("search", "boosted", "rescore")
ORDER = 202
TITLE = "Letters: hundreds of short utterances at once"
GRAPH, SET = "char-3gram", "throughput"
FRAMES = 200
BEST, LISTS, RESCORED = "best path", "lists", "rescored"
RIVA_SETTINGS: gpu_riva.Settings = ((200, 50, None), (gpu_riva.BATCH, 50, None))
COLUMNS = [
    Column("measure", "measure"),
    Column("utterances", "utterances", "{:,}"),
    Column("minutes", "minutes", "{:.0f}"),
    Column("beam / max_active", "search"),
    Column("milliseconds", "ms", "{:.2f}"),
    Column("spread", "spread", "{:.2f}", timing.ms_spread),
    Column("goal, ms", "goal_ms", "{:g}"),
    Column("RTFx", "rtfx", "{:,.0f}"),
    Column("tokens a frame", "tokens", "{:.1f}"),
    Column("of best path, %", "share", "{:.0f}"),
    Column("goal, %", "goal_share", "{:.0f}"),
    Column("riva, ms", "peer_ms", "{:.1f}"),
    Column("riva / arcbeam", "ratio", "{:.1f}"),
    Column("spread", "ratio_spread", "{:.1f}"),
    Column("same words, %", "equal", "{:.1f}"),
    Column("settings of riva", "peer_settings"),
    Column("status", "status"),
]


@dataclass(frozen=True)
class Work:
    """A measure, of so many utterances; `goal` in milliseconds, of lists in percent of the speed."""

    measure: str
    utterances: int
    options: SearchOptions
    goal: float


WORK = (
    Work(BEST, 688, gpu.NARROW, 3.5),
    Work(BEST, 688, gpu.WIDE, 10.0),
    Work(BEST, 4128, gpu.NARROW, 8.0),
    Work(RESCORED, 688, gpu.NARROW, 7.0),
    Work(LISTS, 264, gpu.NARROW, 90.0),
    Work(LISTS, 264, gpu.WIDE, 90.0),
)


def pieces(dataset: datasets.Dataset, frames: int) -> datasets.Dataset:
    """Pieces of so many frames, each within one utterance; a reference is that of the utterance."""
    kept = [
        (at, u[begin : begin + frames])
        for at, u in enumerate(dataset.utterances)
        for begin in range(0, len(u) - frames + 1, frames)
    ]
    return datasets.Dataset(
        f"{dataset.name} in pieces", np.concatenate([piece for _, piece in kept]), np.full(len(kept), frames),
        [f"{dataset.ids[at]}-{i}" for i, (at, _) in enumerate(kept)], [dataset.references[at] for at, _ in kept],
        dataset.frame_shift, dataset.tokens,
    )  # fmt: skip


def run(context: Context) -> Iterator[Row]:
    files = graphs.get(GRAPH, context.progress)
    cut = pieces(datasets.load(SET), FRAMES)
    for work in WORK:
        context.progress(f"{work.measure}, {work.utterances} utterances, beam {work.options.beam:g}")
        count = min(work.utterances, context.utterances or work.utterances)
        first = gpu.cycled(cut.first(min(WORK[0].utterances, count)), count)
        what = {"measure": work.measure, "utterances": count, "search": gpu.beam_text(work.options)}
        choices = (RIVA_SETTINGS, ()) if work.measure == BEST else ((),)
        yield from gpu_riva.without_riva_at_last(what, one, (context, files, first, work), choices)


def one(
    context: Context, files: graphs.GraphFiles, dataset: datasets.Dataset, work: Work, choice: gpu_riva.Settings
) -> Iterator[Row]:
    gpu.require()
    more: dict[str, Any] = {}
    requested: dict[str, Any] = {}
    if work.measure == RESCORED:
        more = dict(rescoring_models.load(files.name))
    if work.measure == LISTS:
        lists = Vocabulary(files.graph).lists(dataset.references, PHRASES)
        requested["boost"] = [arcbeam.Boost(phrases) for phrases in lists]
    decoder = gpu.decoder(files.graph, work.options, **more)
    twin = gpu.decoder(files.graph, work.options, device="cpu", **more)
    arrays = gpu.send(dataset.utterances)
    found = decoder.decode(arrays, **requested)
    stats = decoder.stats
    gpu.compare(found, twin.decode([np.ascontiguousarray(u, np.float32) for u in dataset.utterances], **requested))
    row: Row = {
        "measure": work.measure,
        "utterances": len(dataset.ids),
        "minutes": dataset.seconds / 60,
        "search": gpu.beam_text(work.options),
        "tokens": stats.tokens / stats.frames,
    }
    contenders = {"ours": lambda: decoder.decode(arrays, **requested)}
    theirs = None
    try:
        if choice:
            options = replace(work.options, batch=gpu_riva.BATCH)
            theirs, row["tried"] = gpu_riva.fastest(context, files, dataset, options, choice)
    except (ImportError, OSError) as error:
        row["status"] = f"missing: {adapters.why(error)}"
    if theirs is not None:
        ready = theirs.look_into(arrays)
        said = [answer.text for answer in theirs.answers(theirs.decode(ready))]
        row["equal"] = gpu_riva.same_words([a.text for a in found], said)
        row["peer_settings"] = theirs.settings
        contenders["riva"] = lambda: theirs.decode(ready)
    if work.measure == LISTS:
        contenders["plain"] = lambda: decoder.decode(arrays)
    timings = timing.interleave(contenders, 3 * context.repeats)
    row |= {
        "ms": 1e3 * timings["ours"].seconds,
        "wall": timings["ours"].wall,
        "rtfx": dataset.seconds / timings["ours"].seconds,
        "goal_share" if work.measure == LISTS else "goal_ms": work.goal,
    }
    if theirs is not None:
        row["peer_ms"], row["peer_wall"] = 1e3 * timings["riva"].seconds, timings["riva"].wall
        row["peer_rtfx"] = dataset.seconds / timings["riva"].seconds
        row["ratio"], row["ratio_spread"] = timing.ratio(timings["riva"], timings["ours"])
    if work.measure == LISTS:
        row["share"] = 100 * timing.ratio(timings["plain"], timings["ours"])[0]
    yield row | {"spread": timing.ms_spread(row)}
