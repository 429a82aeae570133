"""The score of a boost that comes without one: recall and false alarms by score, on the tuning set alone.

Utterances of `ljspeech-200` have lists of their own: the rare words that are said in them (outside the 5,000 most
frequent of the books) and 100, 1,000 or 2,000 other rare words, drawn for each. A fourth list is that of the whole set:
all rare words that are said in it, which are harder to tell apart from what is said than words drawn at random. All
words of a list have the same score, a natural log. Recall is the share of the listed words that were said and are
found; a false alarm is a listed word that was not said, and it counts as added if there are fewer at score 0. The
default is the whole score with the largest recall on average over lists and beams, among those that add at most one
false alarm in a hundred utterances on average. Rows of `all` lists have these averages. The acoustic scale is 1.5;
phrases of several words were not measured.
"""

from collections.abc import Iterator, Sequence
from statistics import mean
from typing import Any

import arcbeam
from arcbeam.ctc.options import DEFAULT_BOOST
from benchmarks.data import datasets, graphs
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import boosting

ORDER = 38
TITLE = "The default score of a boost"
BEAMS = (8.0, 12.0, 17.0)
DISTRACTORS = (100, 1_000, 2_000)
SCORES = (*map(float, range(13)), 14.0, 17.0)
MOST_ADDED = 1.0  # false alarms in 100 utterances, beyond those without a boost
ALL, WHOLE_SET = "all", "those of the set"
COLUMNS = [
    Column("words of a list beside its own", "list"),
    Column("score", "score", "{:g}"),
    *(Column(f"recall at beam {beam:g}, %", f"recall_{beam:g}", "{:.1f}") for beam in BEAMS),
    *(Column(f"false alarms in 100 utterances at beam {beam:g}", f"false_{beam:g}", "{:.1f}") for beam in BEAMS),
    *(Column(f"WER at beam {beam:g}, %", f"wer_{beam:g}", "{:.2f}") for beam in BEAMS),
    Column("recall, %", "recall", "{:.2f}"),
    Column("false alarms added in 100 utterances", "added", "{:.2f}"),
    Column("", "mark"),
]


def summed(rows: Sequence[Row]) -> list[Row]:
    """For each score the recall and the added false alarms, on average over lists and beams."""
    each: Any = rows
    without = {row["list"]: row for row in each if row["score"] == 0}
    found: list[Row] = []
    for score in dict.fromkeys(row["score"] for row in each):
        own = [row for row in each if row["score"] == score]
        recalls = [row[f"recall_{beam:g}"] for row in own for beam in BEAMS]
        added = [row[f"false_{beam:g}"] - without[row["list"]][f"false_{beam:g}"] for row in own for beam in BEAMS]
        found.append({"list": ALL, "score": score, "recall": mean(recalls), "added": mean(added)})
    return found


def choice(rows: Sequence[Row]) -> float:
    """The default score, by the rows of all lists; of equals the smallest."""
    each: Any = [row for row in rows if row["list"] == ALL]
    allowed = [row for row in each if row["added"] <= MOST_ADDED and row["score"] > 0]
    return float(max(allowed, key=lambda row: (round(row["recall"], 9), -row["score"]))["score"])


def run(context: Context) -> Iterator[Row]:
    graph = graphs.get(boosting.GRAPH, context.progress).graph
    rare = boosting.RareWords.of_graph(graph)
    dataset = datasets.load(boosting.TUNED_ON).first(context.utterances)
    decoders = {beam: boosting.decoder(graph, beam) for beam in BEAMS}
    lists = {f"{count:,} others": rare.lists(dataset.references, count) for count in DISTRACTORS}
    lists[WHOLE_SET] = [rare.said(dataset.references)] * len(dataset.ids)
    rows: list[Row] = []
    for kind, listed in lists.items():
        for score in SCORES:
            context.step(f"{kind}, score {score:g}")
            boosts = [arcbeam.Boost(words, score) for words in listed]
            row: Row = {"list": kind, "score": score}
            for beam, decoder in decoders.items():
                texts = [hypothesis.text for hypothesis in decoder.decode(dataset.utterances, boost=boosts)]
                got = boosting.outcome(dataset.references, texts, listed)
                row |= {f"recall_{beam:g}": got.recall, f"false_{beam:g}": got.false_alarms, f"wer_{beam:g}": got.wer}
            rows.append(row)
            yield row
    of_all = summed(rows)
    best = choice(of_all)
    for row in of_all:
        marks = ["chosen"] * (row["score"] == best) + ["the default"] * (row["score"] == DEFAULT_BOOST)
        yield row | {"mark": ", ".join(marks) or None}
