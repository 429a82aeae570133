"""GK23 Table 3: decoders alone, over one core of flashlight-text.

All decode the same log-probs, which lie where the decoder takes them: in the host's memory, or on the GPU. They take
turns, and a ratio is taken within a turn; in CPU time, of all cores together, it is less disturbed by what else the
machine does. In results of a GPU, slow decoders get the first minutes of the set alone, as their rows say, and ratios
are of seconds a minute. The paper's settings: beam 17, max_active 10 000, batches of 200, Flashlight's beam size
2 500. Before that, answers are checked: arcbeam's engines and thread counts give the same words, and the others' WER
stands in the table. "Same words" counts the utterances whose words are those of arcbeam cpu. By Flashlight's rules the
last piece of a word cannot last two frames, which costs lexicons of SentencePiece words dearly; the row of mended
rules lets it.
"""

from collections.abc import Iterator

from benchmarks.adapters import Answer, why
from benchmarks.data.datasets import Dataset
from benchmarks.data.graphs import GraphFiles
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import contest, gk23
from data.word_errors import word_error_rate

ORDER, PAPER, ON_GPU = 3, gk23.PAPER, None
KEEPS_CUDA = True
TITLE = "Table 3: decoders alone, over one core of flashlight-text"
WORKLOADS = (("char-3gram", "throughput"), ("spm512-3gram", "workload-512"))
MINUTES_ON_CPU = {"throughput": 6.0, "workload-512": 1.0}
SLOW = ("flashlight_words", "baseline_words", "pyctcdecode")  # on a GPU machine they decode no more than that
SLOW_MINUTES = 6.0  # of any other set
TAKES = {
    **gk23.GRAPH_OPTIONS,
    "set": "log-probs to decode, of benchmarks/data/datasets.py (throughput; workload-512 with spm512-3gram)",
    "minutes": "of audio; 'all' for the whole set (6 of throughput and 1 of workload-512 on a CPU, all on a GPU)",
    "slow_minutes": f"of audio for {', '.join(SLOW)} in results of a GPU (6 of throughput, 1 of workload-512)",
    **gk23.CORPUS_OPTIONS,
    **gk23.SEARCH_OPTIONS,
}
COLUMNS = [
    Column("graph", "graph"),
    Column("set", "set"),
    Column("minutes", "minutes", "{:.1f}"),
    Column("decoder", "decoder"),
    Column("device", "device"),
    Column("RTFx", "rtfx", "{:,.1f}"),
    Column("spread", "rtfx_spread", "{:,.1f}"),
    Column("over flashlight-text", "ratio", "{:,.1f}"),
    Column("spread of that", "ratio_spread", "{:,.1f}"),
    Column("in CPU time", "cpu_ratio", "{:,.1f}"),
    Column("WER, %", "wer", "{:.2f}"),
    Column("same words", "same"),
    Column("settings", "settings"),
    Column("status", "status"),
]


def run(context: Context) -> Iterator[Row]:
    if "corpus" in context.options or "graph" in context.options:
        files = gk23.graph_files(context)
        default = "workload-512" if files.name.startswith("spm512") else "throughput"
        names = (context.options.get("set", default),)
        for dataset in gk23.sets(context, files, names, gk23.search_options(context).batch):
            yield from table(context, files, _cut(context, dataset))
        return
    for graph, name in WORKLOADS:
        if context.options.get("set", name) == name:
            files = gk23.graph_files(context, graph)
            (dataset,) = gk23.sets(context, files, (name,), 1)
            yield from table(context, files, _cut(context, dataset))


def _cut(context: Context, dataset: Dataset) -> Dataset:
    minutes = context.options.get("minutes")
    if minutes is not None:
        return gk23.first_minutes(dataset, None if minutes == "all" else float(minutes))
    return dataset if context.gpu else gk23.first_minutes(dataset, MINUTES_ON_CPU.get(dataset.name))


def _part(context: Context, dataset: Dataset, adapter: str) -> Dataset:
    """What a decoder decodes: the first minutes, where it would hold up a GPU for an hour."""
    if not context.gpu or adapter not in SLOW:
        return dataset
    minutes = context.options.get("slow_minutes", MINUTES_ON_CPU.get(dataset.name, SLOW_MINUTES))
    return gk23.first_minutes(dataset, float(minutes))


def table(context: Context, files: GraphFiles, dataset: Dataset) -> Iterator[Row]:
    options = gk23.search_options(context)
    seats = []
    for contender in contest.chosen(gk23.contenders(), context.options.get("contenders")):
        context.step(f"{files.name}: making {contender.label}")
        seats.append(contest.seat(contender, files, options))
    taken = {s.contender.label: s.adapter for s in seats if s.adapter is not None}
    parts = {s.contender.label: _part(context, dataset, s.contender.adapter) for s in seats}
    prepared = {label: adapter.prepare(parts[label].utterances) for label, adapter in taken.items()}
    answers: dict[str, list[Answer]] = {}
    failed: dict[str, str] = {}
    for label, adapter in list(taken.items()):
        context.progress(f"{files.name}, {dataset.name}: answers of {label}")
        try:
            answers[label] = adapter.answers(adapter.decode(prepared[label]))
        except Exception as error:  # of one decoder; the others' rows are worth having
            failed[label] = f"failed: {type(error).__name__}: {why(error)}"
            del taken[label]
    texts = {label: [a.text for a in found] for label, found in answers.items()}
    ours = [label for s in seats if (label := s.contender.label) in taken and s.contender.adapter in gk23.OURS]
    for label in ours[1:]:
        if texts[label] != texts[ours[0]]:
            raise AssertionError(f"{label} and {ours[0]} give different words")

    turns = {label: lambda a=adapter, p=prepared[label]: a.decode(p) for label, adapter in taken.items()}
    timings = timing.interleave(turns, context.repeats, warm_up=False, step=context.step)
    reference = next((s.contender.label for s in seats if s.contender.adapter == gk23.REFERENCE), "")
    for seat in seats:
        label = seat.contender.label
        part = parts[label]
        row = {"graph": files.name, "set": dataset.name, "minutes": part.seconds / 60, **seat.row}
        if label in failed:
            row["status"] = failed[label]
        elif label in taken:
            mine = timings[label]
            row |= {
                "utterances": len(part.ids),
                "rtfx": part.seconds / mine.seconds,
                "rtfx_spread": [part.seconds / s for s in reversed(mine.spread())],
                "wall": mine.wall,
                "cpu": mine.cpu,
                "wer": 100 * word_error_rate(part.references, texts[label]),
            }
            if ours:
                pairs = list(zip(texts[label], texts[ours[0]], strict=False))  # a part is the first utterances
                row["same"] = f"{sum(a == b for a, b in pairs)} of {len(pairs)}"
            if reference in timings:
                longer = part.seconds / parts[reference].seconds
                ratio, spread = timing.ratio(timings[reference], mine)
                row["ratio"], row["ratio_spread"] = longer * ratio, [longer * s for s in spread]
                if seat.adapter is not None and seat.adapter.device == "cpu":
                    row["cpu_ratio"] = longer * timing.cpu_ratio(timings[reference], mine)
        yield row
