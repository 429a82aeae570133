"""Words taken out of the vocabulary and given back with each request, as new words: how many of them are found.

All rare words that are said in the tuning set or in the tested one (rare: outside the 5,000 most frequent of the books)
are left out of the lexicon, and so out of the language model: `char-3gram` is built again without them, with an open
slot. Then each utterance is decoded with a list of its own words among these and so many of the others, spelled in
letters. Recall is the share of their occurrences in the references that the texts have; a false alarm is a listed word
that was not said. `slot` is what a new word scores in place of an n-gram: `<unk>`'s own score, and larger ones (rows
`tuning`, the first 50 utterances of `ljspeech-200` with 100 others). The tested set is decoded with `<unk>`'s own and
with the default, and the boost of the fewest word errors in tuning with that slot (of equals the smaller). Beside them
stand the graph with these words in its vocabulary, without a boost and with the default one, and the smaller graph
without lists.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

import arcbeam
from arcbeam.ctc.options import DEFAULT_BOOST
from arcbeam.graph.token_table import TokenTable
from arcbeam.recipe.language_model import unknown_word_score
from arcbeam.recipe.recipe import LEAST_SLOT_SCORE
from benchmarks.data import datasets, graphs
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import boosting

ORDER = 39
TITLE = "Words given back as new words"
SET = "test-other-100"
OTHERS = (0, 100)
TUNED_WITH = 100
BEAMS = (17.0, 12.0)
SCORES = (4.0, 7.0, 10.0)
SLOTS = (None, -10.0, -8.0, LEAST_SLOT_SCORE, -4.0)  # None: the score of <unk>
TUNING_UTTERANCES = 50
COLUMNS = [
    Column("set", "set"),
    Column("vocabulary", "vocabulary"),
    Column("beam", "beam", "{:g}"),
    Column("slot", "slot", "{:.1f}"),
    Column("other words in a list", "others", "{:,}"),
    Column("score", "score", "{:g}"),
    Column("what for", "why"),
    Column("WER, %", "wer", "{:.2f}"),
    Column("words taken out that were said", "listed"),
    Column("recall, %", "recall", "{:.1f}"),
    Column("false alarms in 100 utterances", "false", "{:.1f}"),
]
WHOLE, NEW = "whole", "without them"


def without(words: Sequence[str], name: str = boosting.GRAPH) -> "arcbeam.Graph":
    """The graph of the experiments without some words, with an open slot."""
    from arcbeam.recipe.lexicon import Lexicon
    from arcbeam.recipe.word_lists import words_of_arpa

    lm = graphs.files(name).lm
    assert lm is not None
    taken, tokens = set(words), TokenTable.read(datasets.data_folder() / "tokens.txt")
    lexicon = Lexicon.spell([word for word in words_of_arpa(lm) if word not in taken], tokens)
    return arcbeam.Graph.build(tokens, lexicon, lm, open_slot=True)


def lists_of(rare: boosting.RareWords, taken: Sequence[str], references: Sequence[str], count: int) -> list[list[str]]:
    """For each utterance those of the words that it has, and so many of the others, drawn for it alone."""
    return [
        [*rare.said([reference]), *boosting.drawn(taken, rare.said([reference]), count, count, at)]
        for at, reference in enumerate(references)
    ]


def with_slot_score(graph: "arcbeam.Graph", score: float) -> "arcbeam.Graph":
    """The graph, in whose slot new words have this score."""
    assert graph.open_slot is not None
    slot = replace(graph.open_slot, weights=np.full_like(graph.open_slot.weights, -score))
    return arcbeam.Graph(**graph.fields() | {"open_slot": slot})


class Measurement:
    """Decodes with lists of the words that were taken out, and compares."""

    def __init__(self, rare: boosting.RareWords, taken: Sequence[str]) -> None:
        self.rare, self.taken = rare, taken

    def row(
        self,
        dataset: datasets.Dataset,
        graph: "arcbeam.Graph",
        beam: float,
        slot: float | None,
        others: int | None,
        score: float,
        why: str,
    ) -> Row:
        """`others` None: without lists; `slot` None: the graph with all words."""
        lists = lists_of(self.rare, self.taken, dataset.references, others or 0)
        boosts = None if others is None else [arcbeam.Boost(words, score) for words in lists]
        found = boosting.decoder(graph, beam).decode(dataset.utterances, boost=boosts)
        got = boosting.outcome(dataset.references, [one.text for one in found], lists)
        return {
            "set": dataset.name, "vocabulary": WHOLE if slot is None else NEW, "beam": beam, "slot": slot,
            "others": others, "score": None if others is None else score, "why": why, "wer": got.wer,
            "listed": got.listed, "recall": got.recall, "false": got.false_alarms,
        }  # fmt: skip


def run(context: Context) -> Iterator[Row]:
    files = graphs.get(boosting.GRAPH, context.progress)
    rare = boosting.RareWords.of_graph(files.graph)
    tuning = datasets.load(boosting.TUNED_ON).first(min(context.utterances or TUNING_UTTERANCES, TUNING_UTTERANCES))
    tested = datasets.load(SET).first(context.utterances)
    taken = rare.said([*tuning.references, *tested.references])
    context.progress(f"a graph without {len(taken)} words")
    smaller = without(taken)
    if still := rare.set.intersection(taken) & boosting.RareWords.of_graph(smaller).set:
        raise AssertionError(f"the smaller graph still writes {sorted(still)[:5]}")
    assert files.lm is not None
    unknown = unknown_word_score(files.lm)
    slots = {unknown if slot is None else slot for slot in SLOTS}
    opened = {slot: with_slot_score(smaller, slot) for slot in sorted(slots)}
    measured = Measurement(rare, taken)

    best: dict[tuple[float, float], float] = {}
    for beam in BEAMS:
        for slot, graph in opened.items():
            context.step(f"beam {beam:g}, slot {slot:.1f}")
            rows = [measured.row(tuning, graph, beam, slot, TUNED_WITH, score, "tuning") for score in SCORES]
            yield from rows
            errors = {score: float(str(row["wer"])) for score, row in zip(SCORES, rows, strict=True)}
            best[beam, slot] = min(SCORES, key=lambda score: (errors[score], score))

    context.step("the tested set")
    for beam in BEAMS:
        yield measured.row(tested, files.graph, beam, None, None, 0.0, "no list")
        yield measured.row(tested, files.graph, beam, None, TUNED_WITH, DEFAULT_BOOST, "the default")
        yield measured.row(tested, smaller, beam, LEAST_SLOT_SCORE, None, 0.0, "no list")
        for slot in (unknown, LEAST_SLOT_SCORE):
            for count in OTHERS:
                yield measured.row(tested, opened[slot], beam, slot, count, best[beam, slot], "tuned")
        yield measured.row(
            tested, opened[LEAST_SLOT_SCORE], beam, LEAST_SLOT_SCORE, TUNED_WITH, DEFAULT_BOOST, "default"
        )
