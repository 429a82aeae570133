"""One GPU compared with riva-asrlib-decoder's decode_mbr: same graph, same log-probs on the device, same run.

Batches of 264 utterances; lattice beam 8 at beam 17 and 4 at beam 12. First our paths are compared with the CPU twin's
as bytes, and our words with riva's, which may differ: its words are the consensus of a lattice. riva gets the fastest
of the settings that were tried. Both are timed in turns by the clock, from the call until the words are on the host:
riva's words come with times and confidences, ours as text. `paths` is arcbeam without requesting the words.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from benchmarks import adapters
from benchmarks.adapters import SearchOptions, gpu
from benchmarks.adapters.arcbeam_cuda import ArcbeamCuda
from benchmarks.data import datasets, graphs
from benchmarks.harness import record, timing
from benchmarks.harness.registry import Column, Context, Row
from data.word_errors import word_error_rate

ON_GPU = True
ORDER = 200
TITLE = "Compared with riva-asrlib-decoder"
BATCH = 264
# Lanes of its engine, frames of a lane at a time, tokens that there is room for at first; with the tokens of its own
# evaluation, and with its default.
Settings = tuple[tuple[int, int, int | None], ...]
RIVA_SETTINGS: Settings = ((200, 50, 10_000_000), (200, 50, None), (BATCH, 50, None), (BATCH, 200, None))
WORKLOADS = (*gpu.WORKLOADS, ("spm1024-3gram", "workload-1024"))
TAKES = {"graph": f"one of {', '.join(graph for graph, _ in WORKLOADS)} alone"}
MOST_DIFFERENT = 0.5  # of the words: more, and one of the decoders reads the graph or the log-probs wrongly
COLUMNS = [
    Column("graph", "graph"),
    Column("set", "set"),
    Column("minutes", "minutes", "{:.1f}"),
    Column("beam / max_active", "search"),
    Column("RTFx arcbeam", "rtfx", "{:,.0f}"),
    Column("RTFx riva", "peer_rtfx", "{:,.0f}"),
    Column("ratio", "ratio", "{:.1f}"),
    Column("spread", "ratio_spread", "{:.1f}"),
    Column("RTFx paths", "search_rtfx", "{:,.0f}"),
    Column("ratio paths", "search_ratio", "{:.1f}"),
    Column("WER arcbeam, %", "wer", "{:.2f}"),
    Column("WER riva, %", "peer_wer", "{:.2f}"),
    Column("same words, %", "equal", "{:.1f}"),
    Column("settings of riva", "peer_settings"),
    Column("status", "status"),
]


def run(context: Context) -> Iterator[Row]:
    only = context.options.get("graph")
    for graph_name, set_name in WORKLOADS:
        if only and graph_name != only:
            continue
        try:
            files = graphs.get(graph_name, context.progress)
            dataset = datasets.load(set_name).first(context.utterances or BATCH)
        except datasets.DataMissing as error:
            if (graph_name, set_name) in gpu.WORKLOADS:
                raise
            yield {"graph": graph_name, "set": set_name, "status": f"missing: {error}"}
            continue
        for options in gpu.BEAMS:
            context.progress(f"{graph_name}, {set_name}, beam {options.beam:g}")
            what = {"graph": graph_name, "set": set_name, "search": gpu.beam_text(options)}
            work = (context, files, dataset, replace(options, batch=BATCH))
            yield from without_riva_at_last(what, one, work, (RIVA_SETTINGS, RIVA_SETTINGS[1:], ()))


def without_riva_at_last(
    what: Row, measure: Callable[..., Iterator[Row]], work: tuple[Any, ...], choices: Sequence[Any]
) -> list[Row]:
    """The rows of `measure` with the first of these choices of riva's settings that it can be measured with.

    The last choice, which is false, is to leave it out.

    riva can take its process with it, by its room for tokens above all; our figures are worth having then. Where they
    are all that is left, a row's status is what riva failed with.
    """
    told: list[object] = []
    rows: list[Row] = []
    for choice in choices:
        rows = list(gpu.rows_or_failure(what, measure, *work, choice))
        failed = [row["status"] for row in rows if record.failed(row)]
        if not failed:
            return [row | {"status": told[0]} for row in rows] if told and not choice else rows
        told += failed
    return rows


def same_words(texts: Sequence[str], said: Sequence[str]) -> float:
    """Percent of our texts that are riva's. Raises gpu.Wrong where too many words differ for a comparison."""
    if (different := word_error_rate(texts, said)) > MOST_DIFFERENT:
        raise gpu.Wrong(f"riva's words differ by {different:.0%} from ours; the first: {texts[0]!r}, {said[0]!r}")
    return 100 * sum(a == b for a, b in zip(texts, said, strict=True)) / len(texts)


def fastest(
    context: Context, files: graphs.GraphFiles, dataset: datasets.Dataset, options: SearchOptions, choice: Settings,
    **more: int,
):  # type: ignore[no-untyped-def]  # fmt: skip
    """riva with those settings that decode the set in the least time, and the times of all.

    more : further settings of the adapter
    """
    riva = adapters.make("riva")

    def make(lanes: int, frames: int, tokens: int | None):  # type: ignore[no-untyped-def]
        return riva(
            files, options, max_batch_size=lanes, frames_a_chunk=frames, frame_shift=dataset.frame_shift, tokens=tokens,
            **more,
        )  # fmt: skip

    tried = {}
    for settings in choice:
        made = make(*settings)
        prepared = made.prepare(dataset.utterances)
        took = timing.interleave({"riva": lambda m=made, p=prepared: m.decode(p)}, 2)["riva"]
        tried[settings] = min(took.wall)
        context.progress(f"riva with {made.settings}: RTFx {dataset.seconds / min(took.wall):,.0f}")
        del made, prepared
    return make(*min(tried, key=tried.__getitem__)), [[*settings, seconds] for settings, seconds in tried.items()]


def one(
    context: Context, files: graphs.GraphFiles, dataset: datasets.Dataset, options: SearchOptions, choice: Settings
) -> Iterator[Row]:
    gpu.require()
    ours = ArcbeamCuda(files, options)
    arrays = ours.prepare(dataset.utterances)
    found = ours.decode(arrays)
    gpu.check(found, ours.graph, options, [u.astype("float32") for u in dataset.utterances])
    texts = [h.text for h in found]
    row: Row = {
        "graph": files.name,
        "set": dataset.name,
        "minutes": dataset.seconds / 60,
        "utterances": len(dataset.ids),
        "search": gpu.beam_text(options),
        "wer": 100 * word_error_rate(dataset.references, texts),
    }
    contenders = {"ours": lambda: ours.decode(arrays), "paths": lambda: ours.search(arrays)}
    theirs = None
    try:
        if choice:
            theirs, row["tried"] = fastest(context, files, dataset, options, choice)
    except (ImportError, OSError) as error:
        row["status"] = f"missing: {adapters.why(error)}"
    if theirs is not None:
        ready = theirs.look_into(arrays)
        said = [a.text for a in theirs.answers(theirs.decode(ready))]
        row |= {
            "equal": same_words(texts, said),
            "peer_wer": 100 * word_error_rate(dataset.references, said),
            "peer_settings": theirs.settings,
        }
        contenders["riva"] = lambda: theirs.decode(ready)
    timings = timing.interleave(contenders, context.repeats)
    row |= {
        "rtfx": dataset.seconds / timings["ours"].seconds,
        "wall": timings["ours"].wall,
        "search_rtfx": dataset.seconds / timings["paths"].seconds,
        "search_wall": timings["paths"].wall,
    }
    if theirs is not None:
        ratio, spread = timing.ratio(timings["riva"], timings["ours"])
        row |= {
            "peer_rtfx": dataset.seconds / timings["riva"].seconds,
            "peer_wall": timings["riva"].wall,
            "ratio": ratio,
            "ratio_spread": spread,
            "search_ratio": timing.ratio(timings["riva"], timings["paths"])[0],
        }
    yield row
