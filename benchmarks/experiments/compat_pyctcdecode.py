"""pyctcdecode's calls on one core: the original, `arcbeam.compat.pyctcdecode`, and the graph search of `CtcDecoder`.

The first two get the same calls, one utterance each, with the same log-probs, KenLM and words: letters with speech, and
pieces with synthetic log-probs, a few minutes of each. Weight 1 for the language model, no word score, and otherwise
pyctcdecode's defaults; beam widths are 100, its default, 20 and 500. The graph search has the same 3-gram and words in
its graph, and takes settings of its own. First the answers are compared: ours must not have more word errors than the
original's, and answers in letters may differ where they tie only; of pieces the original sometimes loses the first one
of a word, see "What is not the same" in the guide. All take turns, and ratios are taken within a turn, on the clock and
in processor time: the time of pyctcdecode over that of the row. The graph search is compared with pyctcdecode at beam
width 100.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from arcbeam.compat.pyctcdecode import build_ctcdecoder
from benchmarks.adapters import SearchOptions
from benchmarks.data import datasets, graphs
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import contest
from benchmarks.tasks.contest import Contender
from data.word_errors import word_error_rate

ORDER = 25
TITLE = "The calls of pyctcdecode compared with the original"
LETTERS = "letters"
LABELS = (
    (LETTERS, "char-3gram", "throughput", 60),
    ("256 pieces", "spm256-3gram", "workload-256", 60),
    ("512 pieces", "spm512-3gram", "workload-512", 60),
)
WIDTHS = (20, 100, 500)
DEFAULT_WIDTH = 100
SEARCHES = ((8.0, 5_000), (10.0, 5_000), (12.0, 5_000), (14.0, 10_000), (17.0, 10_000))
PEER, COMPAT, GRAPH = "pyctcdecode", "arcbeam.compat.pyctcdecode", "CtcDecoder"
OUR_BUILD = partial(build_ctcdecoder, threads=1)
PRUNE_LOGP = 10.0  # pyctcdecode's default
MOST_TIES = 0.02  # of the utterances
COLUMNS = [
    Column("labels", "labels"),
    Column("minutes", "minutes", "{:.1f}"),
    Column("decoder", "decoder"),
    Column("beam width", "width"),
    Column("beam", "beam", "{:g}"),
    Column("RTFx", "rtfx", "{:,.0f}"),
    Column("spread", "rtfx_spread", "{:,.0f}"),
    Column("WER, %", "wer", "{:.2f}"),
    Column("same words as pyctcdecode", "same"),
    Column("faster than pyctcdecode by", "ratio", "{:.1f}"),
    Column("spread of that", "ratio_spread", "{:.1f}"),
    Column("in CPU time", "cpu_ratio", "{:.1f}"),
    Column("settings", "settings"),
    Column("status", "status"),
]


def contenders() -> Iterator[tuple[Contender, SearchOptions, Row]]:
    """Each row of a set of labels: who decodes, with what, and the cells that name it."""
    for width in WIDTHS:
        for name, more in ((PEER, {}), (COMPAT, {"build": OUR_BUILD})):
            cells: Row = {"decoder": name, "width": width}
            more = {"beam_width": width, **more}
            yield Contender(f"{name}, {width}", "pyctcdecode", more), SearchOptions(PRUNE_LOGP), cells
    for beam, max_active in SEARCHES:
        yield (
            Contender(f"{GRAPH}, {beam:g}", "arcbeam_cpu"),
            SearchOptions(beam, max_active),
            {
                "decoder": GRAPH,
                "beam": beam,
            },
        )


def run(context: Context) -> Iterator[Row]:
    for labels, graph, name, count in LABELS:
        files = graphs.get(graph, context.progress)
        dataset = datasets.load(name).first(min(context.utterances or count, count))
        yield from table(context, labels, files, dataset)


def table(context: Context, labels: str, files: graphs.GraphFiles, dataset: datasets.Dataset) -> Iterator[Row]:
    seats, texts, turns = {}, {}, {}
    cells = {}
    for contender, options, cells_of in contenders():
        label = contender.label
        context.progress(f"{labels}: answers of {label}")
        seat = seats[label] = contest.seat(contender, files, options)
        cells[label] = {"labels": labels, "minutes": dataset.seconds / 60, **seat.row, **cells_of}
        if seat.adapter is not None:
            prepared: Any = seat.adapter.prepare(dataset.utterances)
            texts[label] = [answer.text for answer in seat.adapter.answers(seat.adapter.decode(prepared))]
            turns[label] = lambda a=seat.adapter, p=prepared: a.decode(p)
    for width in WIDTHS:
        check(labels, width, dataset.references, texts.get(f"{PEER}, {width}"), texts.get(f"{COMPAT}, {width}"))
    timings = timing.interleave(turns, context.repeats, warm_up=False, step=context.step)
    for label, row in cells.items():
        if label in timings:
            mine, peer = timings[label], f"{PEER}, {row.get('width', DEFAULT_WIDTH)}"
            row |= {
                "utterances": len(dataset.ids),
                "rtfx": dataset.seconds / mine.seconds,
                "rtfx_spread": [dataset.seconds / s for s in reversed(mine.spread())],
                "wall": mine.wall,
                "cpu": mine.cpu,
                "wer": 100 * word_error_rate(dataset.references, texts[label]),
            }
            if peer in timings and peer != label:
                same = sum(a == b for a, b in zip(texts[label], texts[peer], strict=True))
                row["same"] = f"{same} of {len(dataset.ids)}"
                row["ratio"], row["ratio_spread"] = timing.ratio(timings[peer], mine)
                row["cpu_ratio"] = timing.cpu_ratio(timings[peer], mine)
        yield row


def check(labels: str, width: int, references: list[str], theirs: list[str] | None, ours: list[str] | None) -> None:
    """Raises AssertionError where ours have more word errors, or where answers in letters differ beyond ties."""
    if theirs is None or ours is None:
        return
    errors = [word_error_rate(references, texts) for texts in (theirs, ours)]
    if errors[1] > errors[0]:
        raise AssertionError(
            f"{labels}, beam width {width}: {errors[1]:.2%} word errors, the original's {errors[0]:.2%}"
        )
    different = [pair for pair in zip(theirs, ours, strict=True) if pair[0] != pair[1]]
    if labels == LETTERS and len(different) > MOST_TIES * len(theirs):
        raise AssertionError(f"{len(different)} of {len(theirs)} answers in letters differ, such as {different[0]}")
