"""Words taken out of the vocabulary and given back with each request, as new words: how many of them are found.

All rare words that are said in the tuning set or in the tested one (rare: outside the 5,000 most frequent of the books)
are left out of the lexicon, and so out of the language model: `char-3gram` is built again without them, with an open
slot. Then each utterance is decoded with a list of its own words among these and so many of the others, spelled in
letters. Recall is the share of their occurrences in the references that the texts have; a false alarm is a listed word
that was not said. The scores are those with the fewest word errors on the tuning set, the first 50 utterances of
`ljspeech-200` with 100 others (rows `tuning`; of equals the smaller one). Beside them stand the graph with these words
in its vocabulary, without a boost and with the default one, and the smaller graph without lists.
"""

from collections.abc import Iterator, Sequence

import arcbeam
from arcbeam.ctc.options import DEFAULT_BOOST
from arcbeam.graph.symbols import TokenTable
from benchmarks.data import datasets, graphs
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import boosting

ORDER = 39
TITLE = "Words given back as new words"
SET = "test-other-100"
OTHERS = (0, 100)
TUNED_WITH = 100
BEAM = 17.0
SCORES = (2.0, 4.0, 6.0, 8.0, 10.0, 12.0)
TUNING_UTTERANCES = 50
TAKES: dict[str, str] = {}
COLUMNS = [
    Column("set", "set"),
    Column("vocabulary", "vocabulary"),
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
    from arcbeam.recipe.lexicon import Lexicon, words_of_arpa

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


def run(context: Context) -> Iterator[Row]:
    whole = graphs.get(boosting.GRAPH, context.progress).graph
    rare = boosting.RareWords.of_graph(whole)
    tuning = datasets.load(boosting.TUNED_ON).first(min(context.utterances or TUNING_UTTERANCES, TUNING_UTTERANCES))
    tested = datasets.load(SET).first(context.utterances)
    taken = rare.said([*tuning.references, *tested.references])
    context.progress(f"a graph without {len(taken)} words")
    smaller = without(taken)
    if still := rare.set.intersection(taken) & boosting.RareWords.of_graph(smaller).set:
        raise AssertionError(f"the smaller graph still writes {sorted(still)[:5]}")
    decoder = boosting.decoder(smaller, BEAM)

    def measured(
        dataset: datasets.Dataset, of: "arcbeam.CtcDecoder", vocabulary: str, others: int | None, score: float, why: str
    ) -> Row:
        lists = lists_of(rare, taken, dataset.references, others or 0)
        boosts = [arcbeam.Boost(words, score) for words in lists] if score else None
        texts = [found.text for found in of.decode(dataset.utterances, boost=boosts)]
        got = boosting.outcome(dataset.references, texts, lists)
        return {
            "set": dataset.name, "vocabulary": vocabulary, "others": others, "score": score, "why": why,
            "wer": got.wer, "listed": got.listed, "recall": got.recall, "false": got.false_alarms,
        }  # fmt: skip

    rows = []
    for score in SCORES:
        context.step(f"score {score:g}")
        rows.append(measured(tuning, decoder, NEW, TUNED_WITH, score, "tuning"))
    yield from rows
    each = list(zip(rows, SCORES, strict=True))
    best = min(each, key=lambda row: (row[0]["wer"], row[1]))[1]  # type: ignore[operator]

    with_all = boosting.decoder(whole, BEAM)
    context.step("the tested set")
    yield measured(tested, with_all, WHOLE, None, 0.0, "no list")
    yield measured(tested, decoder, NEW, None, 0.0, "no list")
    for count in OTHERS:
        yield measured(tested, with_all, WHOLE, count, DEFAULT_BOOST, "the default")
        yield measured(tested, decoder, NEW, count, best, "tuned")
