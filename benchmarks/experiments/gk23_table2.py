"""GK23 Table 2: end to end: features, acoustic model and decoder.

RTFx is seconds of audio over seconds from samples in the host's memory to words; reading audio files is not timed.
Recordings come in batches of 200, the longest first. Features and log-probs are made once in a turn, and every decoder
takes its own turn at them; its total is theirs and its own. In every turn, the first of which is not timed, arcbeam's
engines and thread counts have to give the same words. The acoustic model is QuartzNet 15x5 unless you bring your own.
On a CPU a dozen recordings must do: the model is what takes the time.
"""

import statistics
from collections.abc import Iterator

from benchmarks.data import corpus
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import contest, end_to_end, gk23
from data.word_errors import word_error_rate

ORDER, PAPER, ON_GPU = 2, gk23.PAPER, None
KEEPS_CUDA = True
TITLE = "Table 2: end to end"
CORPUS = "test-other-100"
RECORDINGS_ON_CPU = 12
TAKES = {
    **gk23.GRAPH_OPTIONS,
    **gk23.CORPUS_OPTIONS,
    "recordings": f"first recordings of the corpus ({RECORDINGS_ON_CPU} on a CPU, all on a GPU)",
    **gk23.SEARCH_OPTIONS,
}
COLUMNS = [
    Column("set", "set"),
    Column("minutes", "minutes", "{:.1f}"),
    Column("acoustic model", "model"),
    Column("on", "model_device"),
    Column("decoder", "decoder"),
    Column("on", "device"),
    Column("RTFx", "rtfx", "{:,.1f}"),
    Column("spread", "rtfx_spread", "{:,.1f}"),
    Column("WER, %", "wer", "{:.2f}"),
    Column("model's settings", "model_settings"),
    Column("decoder's settings", "settings"),
    Column("status", "status"),
]


def material(context: Context) -> corpus.Corpus:
    found = corpus.load(context.options.get("corpus", CORPUS)).first(context.utterances)
    if "recordings" in context.options:
        return found.first(int(context.options["recordings"]))
    return found if context.gpu or "corpus" in context.options else found.first(RECORDINGS_ON_CPU)


def run(context: Context) -> Iterator[Row]:
    for row, passes in measure(context):
        if passes:
            totals = [row["seconds"] / p.total for p in passes]  # type: ignore[operator]
            row |= {"rtfx": statistics.median(totals), "rtfx_spread": [min(totals), max(totals)]}
            row["wall"] = [p.seconds for p in passes]
        yield row


def check(ours: list[str], turn: dict[str, end_to_end.Pass]) -> None:
    """AssertionError where our engines have given different words in a turn."""
    said = {label: turn[label].texts for label in ours if label in turn}
    for label, texts in said.items():
        if texts != next(iter(said.values())):
            raise AssertionError(f"{label} and {next(iter(said))} give different words")


def measure(context: Context) -> Iterator[tuple[Row, list[end_to_end.Pass]]]:
    """What is known of each decoder, and its passes; none for one that is missing."""
    recordings = material(context)
    files, options = gk23.graph_files(context), gk23.search_options(context)
    model = gk23.open_model(context, options.batch)
    batches = list(gk23.batches(recordings, options.batch))
    waves = [r.samples() for r in recordings.recordings]
    about: Row = {
        "set": recordings.name,
        "minutes": recordings.seconds / 60,
        "seconds": recordings.seconds,
        "model": model.name,
        "model_device": model.device,
        "model_settings": model.settings,
    }
    seats = []
    for contender in contest.chosen(gk23.contenders(), context.options.get("contenders")):
        context.step(f"making {contender.label}")
        seats.append(contest.seat(contender, files, options))
    taken = {s.contender.label: s.adapter for s in seats if s.adapter is not None}
    turns, failed = [], {}  # type: tuple[list[dict[str, end_to_end.Pass]], dict[str, str]]
    with timing.own_garbage():
        for turn in range(context.repeats + 1):  # the first one warms up
            order = taken if turn % 2 == 0 else dict(reversed(taken.items()))
            context.progress(f"turn {turn} of {context.repeats}" if turn else "warming up")
            order = {label: adapter for label, adapter in order.items() if label not in failed}
            turns.append(end_to_end.run(model, order, waves, batches, context.step, failed))
            check([s.contender.label for s in seats if s.contender.adapter in gk23.OURS], turns[-1])
    for seat in seats:
        row, label = about | seat.row, seat.contender.label
        if label in failed:
            yield row | {"status": failed[label]}, []
            continue
        if label in taken:
            said = [turns[0][label].texts[i] for i in range(len(waves))]
            row["wer"] = 100 * word_error_rate(recordings.references, said)
        yield row, [turn[label] for turn in turns[1:] if label in turn]
