"""Lists of rare words, as in Le et al. 2021, compared with pyctcdecode's hotwords and NeMo's boosting trees.

Every utterance has a list of its own: its rare words (those that the graph can write and that are outside the 5,000
most frequent of the books) and 100 to 2,000 other rare words, drawn for it alone. Recall is the share of the listed
words that were said and are found, by their counts; a false alarm is a listed word that was not said. All decode the
same log-probs with the same 3-gram and words, at acoustic scale 1.5. `test-other-100` is measured; the score of each
decoder is the one with the fewest word errors on the first 50 utterances of `ljspeech-200` with 1,000 other words (rows
`tuning`; of equals the smaller one), and arcbeam's default is shown and timed as well. pyctcdecode's beams are its
default of 100; its other settings were not tuned.

NeMo is its greedy CTC decoding and its batched CTC beam search of 16 hypotheses, with a boosting tree of letters for
each utterance. It can have neither a lexicon nor the 3-gram of words: look at what a list gains, too. The beam search
is run without a language model and with a 6-gram of letters, of 30,000 lines of the same books. NeMo's score is
`boosting_tree_alpha`, tuned together with the tree's other settings and the weight of the 6-gram; its log-probs are not
scaled. Only lists of 100 and 1,000 others were made for it, and it is not timed, as it is made for a GPU (`gpu_nemo`).

Times are one core's, up to the texts, of the first 30 utterances with lists of 1,000 others, in turns; recall and the
like in these rows are those of all utterances. pyctcdecode makes its tables of hotwords anew in every call, and so does
arcbeam in the rows `new lists`, which make and compile the lists, too. Before that the answers of a turn are checked to
be those of the rows above, and boosts to be the listed words of the text.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import arcbeam
from arcbeam.ctc.options import DEFAULT_BOOST
from benchmarks.adapters import SearchOptions
from benchmarks.data import datasets, graphs
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import boosting, contest
from benchmarks.tasks.contest import Contender

ORDER = 39
TITLE = "Lists of rare words, compared with pyctcdecode's hotwords and NeMo's trees"
SET = "test-other-100"
DISTRACTORS = (100, 500, 1_000, 2_000)
TIMED = 1_000
NEMO_OTHERS = (100, TIMED)  # a tree of 1,000 words takes a good part of a second
BEAMS = (17.0, 12.0)
SCORES = (2.0, 4.0, 6.0, 8.0, 10.0, 12.0)
OURS, PEER, NEW_LISTS = "arcbeam", "pyctcdecode", "new lists"
PEER_BEAMS, PEER_PRUNE = 100, 10.0
NEMO_ALPHAS, NEMO_BATCH, NEMO_BEAMS = (0.25, 0.35, 0.5, 0.75), 50, 16
NEMO_TREES: tuple[dict[str, Any], ...] = (
    {}, {"depth_scaling": 1.0}, {"context_score": 0.5}, {"unk_score": -0.5}, {"separator_first": True},
)  # fmt: skip
NEMO: dict[str, list[dict[str, Any]]] = {  # the settings that are tried
    "NeMo, greedy": [{"beam_size": 0, **tree} for tree in NEMO_TREES],
    "NeMo, beam search": [{"beam_size": NEMO_BEAMS, **tree} for tree in NEMO_TREES],
    "NeMo, beam search with an LM": [
        {"beam_size": NEMO_BEAMS, "lm_weight": weight, "separator_first": True} for weight in (0.2, 0.3)
    ],
}
TUNING_UTTERANCES, TIMED_UTTERANCES = 50, 30
TAKES: dict[str, str] = {}
COLUMNS = [
    Column("set", "set"),
    Column("decoder", "decoder"),
    Column("other words in a list", "others", "{:,}"),
    Column("score", "score", "{:g}"),
    Column("settings", "settings"),
    Column("what for", "why"),
    Column("WER, %", "wer", "{:.2f}"),
    Column("listed words said", "listed"),
    Column("recall, %", "recall", "{:.1f}"),
    Column("false alarms in 100 utterances", "false", "{:.1f}"),
    Column("RTFx", "rtfx", "{:,.0f}"),
    Column("spread", "rtfx_spread", "{:,.0f}"),
    Column("compared with", "compared"),
    Column("arcbeam is faster by", "ratio", "{:,.0f}"),
    Column("spread of that", "ratio_spread", "{:,.0f}"),
    Column("in CPU time", "cpu_ratio", "{:,.0f}"),
    Column("status", "status"),
]

Texts = Callable[[Any, Sequence[Sequence[str]], float], list[str]]


def ours(graph: "arcbeam.Graph", beam: float) -> Texts:
    """Texts by arcbeam; the score 0 decodes without a boost."""
    decoder = boosting.decoder(graph, beam, threads=1)

    def texts(utterances: Any, lists: Sequence[Sequence[str]], score: float) -> list[str]:
        boosts = [arcbeam.Boost(words, score) for words in lists] if score else None
        found = decoder.decode(utterances, boost=boosts)
        for hypothesis, words in zip(found, lists, strict=True):
            listed = frozenset(words) if score else frozenset()
            if [each.phrase for each in hypothesis.boosts] != [w for w in hypothesis.text.split() if w in listed]:
                raise AssertionError(f"{hypothesis.boosts} are not the listed words of {hypothesis.text!r}")
        return [hypothesis.text for hypothesis in found]

    return texts


def theirs(adapter: Any) -> Texts:
    def texts(utterances: Any, lists: Sequence[Sequence[str]], score: float) -> list[str]:
        prepared = adapter.prepare(utterances)
        decoded = adapter.decode_with_hotwords(prepared, lists, score) if score else adapter.decode(prepared)
        return [answer.text for answer in adapter.answers(decoded)]

    return texts


def row(dataset: datasets.Dataset, found: Sequence[str], lists: Sequence[Sequence[str]]) -> Row:
    got = boosting.outcome(dataset.references, found, lists)
    return {
        "set": dataset.name, "wer": got.wer, "listed": got.listed, "recall": got.recall, "false": got.false_alarms,
    }  # fmt: skip


@dataclass(frozen=True)
class Decoder:
    """A row of the table: its texts with each of the settings that are tried, and the scores that are tried with them.

    others : in the lists that are measured
    default : a score to show as well
    """

    label: str
    settings: Mapping[str, Texts]
    scores: Sequence[float]
    others: Sequence[int]
    default: float | None = None


def nemo(label: str, files: graphs.GraphFiles) -> tuple[Decoder | None, Row]:
    """NeMo with each of its settings; the row tells why there is none."""
    settings: dict[str, Texts] = {}
    for more in NEMO[label]:
        seat = contest.seat(Contender(label, "nemo_boosting", more), files, SearchOptions(batch=NEMO_BATCH))
        if seat.adapter is None:
            return None, seat.row
        settings[seat.adapter.settings] = theirs(seat.adapter)
    return Decoder(label, settings, NEMO_ALPHAS, NEMO_OTHERS), {}


def tuned(decoder: Decoder, dataset: datasets.Dataset, lists: Sequence[Sequence[str]]) -> tuple[str, float, list[Row]]:
    """The settings and the score with the fewest word errors, and the rows of all of them."""
    rows: list[Row] = [
        {"decoder": decoder.label, "others": TIMED, "score": score, "settings": settings, "why": "tuning"}
        | row(dataset, texts(dataset.utterances, lists, score), lists)
        for settings, texts in decoder.settings.items()
        for score in decoder.scores
    ]
    each: Any = rows
    best = min(each, key=lambda r: r["wer"])  # of equals the first, with the smaller score
    return str(best["settings"]), float(best["score"]), rows


def run(context: Context) -> Iterator[Row]:
    files = graphs.get(boosting.GRAPH, context.progress)
    rare = boosting.RareWords.of_graph(files.graph)
    options = SearchOptions(PEER_PRUNE, acoustic_scale=boosting.ACOUSTIC_SCALE)
    seat = contest.seat(Contender(PEER, PEER, {"beam_width": PEER_BEAMS}), files, options)
    decoders = [
        Decoder(f"{OURS}, beam {beam:g}", {"": ours(files.graph, beam)}, SCORES, DISTRACTORS, DEFAULT_BOOST)
        for beam in BEAMS
    ]
    if seat.adapter is not None:
        decoders.append(Decoder(PEER, {"": theirs(seat.adapter)}, SCORES, DISTRACTORS))
    else:
        yield seat.row
    for label in NEMO:
        peer, why_not = nemo(label, files)
        if peer is not None:
            decoders.append(peer)
        else:
            yield why_not

    tuning = datasets.load(boosting.TUNED_ON).first(min(context.utterances or TUNING_UTTERANCES, TUNING_UTTERANCES))
    tuning_lists = rare.lists(tuning.references, TIMED)
    dataset = datasets.load(SET).first(context.utterances)
    lists = {count: rare.lists(dataset.references, count) for count in DISTRACTORS}
    best: dict[str, float] = {}
    measured: list[Row] = []
    outcomes: dict[tuple[str, float], Row] = {}
    answers: dict[tuple[str, float], list[str]] = {}
    for decoder in decoders:
        label = decoder.label
        context.progress(f"scores of {label}")
        settings, best[label], rows = tuned(decoder, tuning, tuning_lists)
        yield from rows
        texts = decoder.settings[settings]
        context.progress(f"{SET} by {label}")
        plain = {"decoder": label, "score": 0.0, "why": "no boost"}
        measured.append(plain | row(dataset, texts(dataset.utterances, lists[TIMED], 0.0), lists[TIMED]))
        scores = {best[label]: "tuned"}
        if decoder.default is not None:
            scores[decoder.default] = "tuned, the default" if best[label] == decoder.default else "the default"
        for score, why in scores.items():
            for count in decoder.others:
                listed = lists[count]
                found = texts(dataset.utterances, listed, score)
                made = {"decoder": label, "others": count, "score": score, "settings": settings, "why": why}
                made |= row(dataset, found, listed)
                measured.append(made)
                if count == TIMED:
                    outcomes[label, score], answers[label, score] = made, found
    yield from measured
    first = dataset.first(TIMED_UTTERANCES)
    yield from timed(context, files.graph, seat.adapter, first, lists[TIMED][: len(first.ids)], best, outcomes, answers)


def timed(
    context: Context,
    graph: "arcbeam.Graph",
    adapter: Any,
    dataset: datasets.Dataset,
    lists: Sequence[Sequence[str]],
    best: dict[str, float],
    outcomes: "dict[tuple[str, float], Row]",
    answers: dict[tuple[str, float], list[str]],
) -> Iterator[Row]:
    """Decoding with lists of 1,000 others, at the score that was tuned and at arcbeam's default."""
    turns: dict[str, Callable[[], list[str]]] = {}
    measured: dict[str, tuple[str, float]] = {}  # what each turn decodes
    for beam in BEAMS:
        label = f"{OURS}, beam {beam:g}"
        decoder = boosting.decoder(graph, beam, threads=1)
        for score in sorted({best[label], DEFAULT_BOOST}):
            kept = [arcbeam.Boost(words, score) for words in lists]
            for boost in kept:
                boost.compiled(graph)

            def warm(decoder: "arcbeam.CtcDecoder" = decoder, kept: list["arcbeam.Boost"] = kept) -> list[str]:
                return [hypothesis.text for hypothesis in decoder.decode(dataset.utterances, boost=kept)]

            def new(decoder: "arcbeam.CtcDecoder" = decoder, score: float = score) -> list[str]:
                boosts = [arcbeam.Boost(words, score) for words in lists]
                return [hypothesis.text for hypothesis in decoder.decode(dataset.utterances, boost=boosts)]

            for name, turn in ((f"{label}, score {score:g}", warm), (f"{label}, score {score:g}, {NEW_LISTS}", new)):
                turns[name], measured[name] = turn, (label, score)
    if adapter is not None:
        prepared = adapter.prepare(dataset.utterances)

        def peer() -> list[str]:
            found = adapter.decode_with_hotwords(prepared, lists, best[PEER])
            return [answer.text for answer in adapter.answers(found)]

        turns[PEER], measured[PEER] = peer, (PEER, best[PEER])
    for name, turn in turns.items():
        if turn() != answers[measured[name]][: len(lists)]:
            raise AssertionError(f"{name}: what is timed is not what was measured")
    times = timing.interleave(turns, context.repeats, warm_up=False, step=context.step)
    for name, mine in times.items():
        label = measured[name][0]
        made = {
            **outcomes[measured[name]],
            "decoder": f"{label}, {NEW_LISTS}" if name.endswith(NEW_LISTS) else label,
            "why": "timed",
            "rtfx": dataset.seconds / mine.seconds,
            "rtfx_spread": [dataset.seconds / s for s in reversed(mine.spread())],
            "wall": mine.wall,
            "cpu": mine.cpu,
        }
        if PEER in times and name != PEER:
            made["compared"] = PEER
            made["ratio"], made["ratio_spread"] = timing.ratio(times[PEER], mine)
            made["cpu_ratio"] = timing.cpu_ratio(times[PEER], mine)
        yield made
