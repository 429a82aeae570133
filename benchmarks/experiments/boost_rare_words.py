"""Lists of rare words, as in Le et al. 2021, compared with pyctcdecode's hotwords and NeMo's boosting trees.

Every utterance has a list of its own: its rare words (those that the graph can write and that are outside the 5,000
most frequent of the books) and 100 to 2,000 other rare words, drawn for it alone. Recall is the share of the listed
words that were said and are found, by their counts; a false alarm is a listed word that was not said. All decode the
same log-probs with the same 3-gram and words, at acoustic scale 1.5. `test-other-100` is measured; the score of each
decoder is the one with the fewest word errors on the first 50 utterances of `ljspeech-200` with 1,000 other words (rows
`tuning`; of equals the one with the larger recall, then the smaller one), and arcbeam's default is shown and timed as
well.

pyctcdecode is measured with its default settings (alpha 1 and beta 0, as the graph weighs its words), and tuned: with
its default weight of 10, one setting after another was changed where that made fewer word errors on the same 50
utterances, or as many and a larger recall, each from the best so far: token_min_logp to -7.5, -10 and -15,
beam_prune_logp to -15 and -20, beam_width to 200, alpha to 0.8 and 1.2, beta to 0.7 and 1.5; then the weight.

NeMo is its greedy CTC decoding and its batched CTC beam search of 16 hypotheses, with a boosting tree of letters for
each utterance. It can have neither a lexicon nor the 3-gram of words: look at what a list gains, too. The beam search
is run without a language model and with a 6-gram of letters, of 30,000 lines of the same books. NeMo's score is
`boosting_tree_alpha`, tuned together with the tree's other settings and the weight of the 6-gram; its log-probs are not
scaled. Only lists of 100 and 1,000 others were made for it, and it is not timed, as it is made for a GPU (`gpu_nemo`).

Times are one core's, up to the texts, of the first 30 utterances with lists of 1,000 others, in turns; recall and the
like in these rows are those of all utterances. The lists are the same in every turn: arcbeam has them compiled, and
pyctcdecode makes its tables of hotwords anew, except for the regular expressions, which Python keeps. In the rows `new
lists` arcbeam makes and compiles the lists, too, and pyctcdecode its expressions. Before that the answers of a turn are
checked to be those of the rows above, and boosts to be the listed words of the text.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

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
OURS, PEER, TUNED_PEER, NEW_LISTS = "arcbeam", "pyctcdecode", "pyctcdecode, tuned", "new lists"
PEER_WEIGHT = 10.0  # its default, with which its other settings are tuned
PEER_DEFAULTS = {"token_min_logp": -5.0, "beam_prune_logp": -10.0, "beam_width": 100, "alpha": 1.0, "beta": 0.0}
PEER_TRIED: dict[str, tuple[float, ...]] = {  # in this order
    "token_min_logp": (-7.5, -10.0, -15.0), "beam_prune_logp": (-15.0, -20.0), "beam_width": (200,),
    "alpha": (0.8, 1.2), "beta": (0.7, 1.5),
}  # fmt: skip
PEER_OTHERS = (100, TIMED)  # of its defaults
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


class Turn(NamedTuple):
    """What is timed: a decoder with a score, its lists kept or new."""

    label: str
    score: float
    is_new: bool

    @property
    def decoder(self) -> str:
        return f"{self.label}, {NEW_LISTS}" if self.is_new else self.label

    def __str__(self) -> str:
        return f"{self.decoder}, score {self.score:g}"


def nemo(label: str, files: graphs.GraphFiles) -> tuple[Decoder | None, Row]:
    """NeMo with each of its settings; the row tells why there is none."""
    settings: dict[str, Texts] = {}
    for more in NEMO[label]:
        seat = contest.seat(Contender(label, "nemo_boosting", more), files, SearchOptions(batch=NEMO_BATCH))
        if seat.adapter is None:
            return None, seat.row
        settings[seat.adapter.settings] = theirs(seat.adapter)
    return Decoder(label, settings, NEMO_ALPHAS, NEMO_OTHERS), {}


def tried(
    label: str, settings: str, texts: Texts, score: float, dataset: datasets.Dataset, lists: Sequence[Sequence[str]]
) -> Row:
    """The row of one try."""
    made: Row = {"decoder": label, "others": TIMED, "score": score, "settings": settings, "why": "tuning"}
    return made | row(dataset, texts(dataset.utterances, lists, score), lists)


def tuned(decoder: Decoder, dataset: datasets.Dataset, lists: Sequence[Sequence[str]]) -> tuple[str, float, list[Row]]:
    """The best settings and score, and the rows of all of them."""
    rows = [
        tried(decoder.label, settings, texts, score, dataset, lists)
        for settings, texts in decoder.settings.items()
        for score in decoder.scores
    ]
    best: Any = min(rows, key=rank)  # of equals the first, with the smaller score
    return str(best["settings"]), best["score"], rows


def rank(tuning: Row) -> tuple[float, float]:
    """What the best row has the smallest of: few word errors, then a large recall."""
    each: Any = tuning
    return each["wer"], -each["recall"]


def peer_with(files: graphs.GraphFiles, settings: Mapping[str, float]) -> contest.Seat:
    """pyctcdecode with these settings."""
    options = SearchOptions(
        -settings["beam_prune_logp"], acoustic_scale=boosting.ACOUSTIC_SCALE, lm_weight=settings["alpha"],
        word_score=settings["beta"],
    )  # fmt: skip
    more = {"beam_width": int(settings["beam_width"]), "token_min_logp": settings["token_min_logp"]}
    return contest.seat(Contender(PEER, PEER, more), files, options)


def tuned_in_turn(
    files: graphs.GraphFiles, dataset: datasets.Dataset, lists: Sequence[Sequence[str]]
) -> tuple[Any, list[Row]]:
    """pyctcdecode's adapter with the best settings, found one after another; and the rows of all of them."""
    rows: list[Row] = []

    def ranked(settings: Mapping[str, float]) -> tuple[float, float]:
        adapter: Any = peer_with(files, settings).adapter
        rows.append(tried(TUNED_PEER, adapter.settings, theirs(adapter), PEER_WEIGHT, dataset, lists))
        return rank(rows[-1])

    best: dict[str, float] = dict(PEER_DEFAULTS)
    first = ranked(best)
    for name, values in PEER_TRIED.items():
        for settings in [best | {name: value} for value in values]:
            found = ranked(settings)
            if found < first:
                best, first = settings, found
    return peer_with(files, best).adapter, rows


def run(context: Context) -> Iterator[Row]:
    files = graphs.get(boosting.GRAPH, context.progress)
    rare = boosting.RareWords.of_graph(files.graph)
    tuning = datasets.load(boosting.TUNED_ON).first(min(context.utterances or TUNING_UTTERANCES, TUNING_UTTERANCES))
    tuning_lists = rare.lists(tuning.references, TIMED)
    decoders = [
        Decoder(f"{OURS}, beam {beam:g}", {"": ours(files.graph, beam)}, SCORES, DISTRACTORS, DEFAULT_BOOST)
        for beam in BEAMS
    ]
    peers: dict[str, Any] = {}
    seat = peer_with(files, PEER_DEFAULTS)
    if seat.adapter is not None:
        context.progress(f"settings of {PEER}")
        peers[PEER] = seat.adapter
        peers[TUNED_PEER], rows = tuned_in_turn(files, tuning, tuning_lists)
        yield from rows
        for label, others in ((PEER, PEER_OTHERS), (TUNED_PEER, DISTRACTORS)):
            decoders.append(Decoder(label, {peers[label].settings: theirs(peers[label])}, SCORES, others))
    else:
        yield seat.row
    for label in NEMO:
        peer, why_not = nemo(label, files)
        if peer is not None:
            decoders.append(peer)
        else:
            yield why_not

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
    yield from timed(context, files.graph, peers, first, lists[TIMED][: len(first.ids)], best, outcomes, answers)


def timed(
    context: Context,
    graph: "arcbeam.Graph",
    peers: Mapping[str, Any],
    dataset: datasets.Dataset,
    lists: Sequence[Sequence[str]],
    best: dict[str, float],
    outcomes: "dict[tuple[str, float], Row]",
    answers: dict[tuple[str, float], list[str]],
) -> Iterator[Row]:
    """Decoding with lists of 1,000 others, at the score that was tuned and at arcbeam's default."""
    turns: dict[Turn, Callable[[], list[str]]] = {}
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

            turns |= {Turn(label, score, False): warm, Turn(label, score, True): new}
    for label, adapter in peers.items():
        prepared = adapter.prepare(dataset.utterances)

        def again(adapter: Any = adapter, prepared: Any = prepared, score: float = best[label]) -> list[str]:
            return [answer.text for answer in adapter.answers(adapter.decode_with_hotwords(prepared, lists, score))]

        def anew(adapter: Any = adapter, again: Callable[[], list[str]] = again) -> list[str]:
            adapter.forget_hotwords()
            return again()

        turns |= {Turn(label, best[label], False): again, Turn(label, best[label], True): anew}
    for turn, texts in turns.items():
        if texts() != answers[turn.label, turn.score][: len(lists)]:
            raise AssertionError(f"{turn}: what is timed is not what was measured")
    named = {str(turn): texts for turn, texts in turns.items()}
    times = timing.interleave(named, context.repeats, warm_up=False, step=context.step)
    for turn in turns:
        mine = times[str(turn)]
        made = {
            **outcomes[turn.label, turn.score],
            "decoder": turn.decoder,
            "why": "timed",
            "rtfx": dataset.seconds / mine.seconds,
            "rtfx_spread": [dataset.seconds / s for s in reversed(mine.spread())],
            "wall": mine.wall,
            "cpu": mine.cpu,
        }
        if turn.label in peers or not peers:
            yield made
            continue
        for label in peers:
            peer = Turn(label, best[label], turn.is_new)
            slow = times[str(peer)]
            ratio, spread = timing.ratio(slow, mine)
            cpu_ratio = timing.cpu_ratio(slow, mine)
            compared = {"compared": peer.decoder, "ratio": ratio, "ratio_spread": spread, "cpu_ratio": cpu_ratio}
            yield made | compared
