"""Phrases of several words in the boost of a CTC decoder, compared with their rare words listed one by one.

Every utterance has a list of its own: its phrases of one, two or three words of which one is rare (outside the 5,000
most frequent of the books), and 0 or 1,000 such phrases of `throughput` that nobody says in the set. All phrases of a
list have the same score, a natural log, whatever their length. Rows `one by one` list the rare words of these phrases
instead, each with that score. Recall is the share of the phrases that were said and are found, by their counts; a false
alarm is a phrase of the list that was not said; both are counted in phrases also where words are listed one by one.
Beam 17, acoustic scale 1.5. `ljspeech-200` is the set on which the default score was chosen, with single words.
"""

from collections.abc import Iterator, Sequence

import arcbeam
from benchmarks.data import datasets, graphs
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import boosting

ORDER = 39
TITLE = "Boosted phrases of several words"
SETS = (boosting.TUNED_ON, "test-other-100")
POOL = "throughput"
BEAM = 17.0
WORDS = (1, 2, 3)
DISTRACTORS = (0, 1_000)
SCORES = (0.0, 5.0, 7.0, 10.0, 14.0)
AS_PHRASES, ONE_BY_ONE = "as phrases", "one by one"
COLUMNS = [
    Column("set", "set"),
    Column("words of a phrase", "words"),
    Column("others in a list", "others", "{:,}"),
    Column("listed", "how"),
    Column("score", "score", "{:g}"),
    Column("WER, %", "wer", "{:.2f}"),
    Column("phrases said", "listed", "{:,}"),
    Column("recall, %", "recall", "{:.1f}"),
    Column("false alarms in 100 utterances", "false", "{:.1f}"),
]


def one_by_one(rare: boosting.RareWords, phrases: Sequence[str]) -> list[str]:
    """The rare words of phrases, each once."""
    return sorted(rare.set.intersection(" ".join(phrases).split()))


def texts_of(hypotheses: "Sequence[arcbeam.Hypothesis]") -> list[str]:
    return [hypothesis.text for hypothesis in hypotheses]


def run(context: Context) -> Iterator[Row]:
    graph = graphs.get(boosting.GRAPH, context.progress).graph
    rare = boosting.RareWords.of_graph(graph)
    decoder = boosting.decoder(graph, BEAM)
    spoken = datasets.load(POOL).references
    for name in SETS:
        dataset = datasets.load(name).first(context.utterances)
        plain = texts_of(decoder.decode(dataset.utterances))
        for words in WORDS:
            pool = rare.phrases(spoken, words)
            for others in DISTRACTORS:
                listed = rare.phrase_lists(dataset.references, words, pool, others)
                ways = {AS_PHRASES: listed}
                if words > 1:
                    ways[ONE_BY_ONE] = [one_by_one(rare, phrases) for phrases in listed]
                for how, given in ways.items():
                    for score in SCORES:
                        context.step(f"{name}, {words} words, {others:,} others, {how}, score {score:g}")
                        boosts = [arcbeam.Boost(one, score) if one else None for one in given]
                        texts = texts_of(decoder.decode(dataset.utterances, boost=boosts)) if score else plain
                        got = boosting.outcome(dataset.references, texts, listed)
                        yield {
                            "set": name, "words": words, "others": others, "how": how, "score": score, "wer": got.wer,
                            "listed": got.listed, "recall": got.recall, "false": got.false_alarms,
                        }  # fmt: skip
