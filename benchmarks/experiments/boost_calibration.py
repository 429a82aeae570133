"""Scores that `Boost.calibrate` finds on one set, used on another: false alarms, and the recall of what is listed.

A list has rare words that neither set's references have. It is calibrated on all utterances of one set. Then the other
set is decoded with it: `false alarms` are the share of its utterances whose hypothesis has one, as `calibrate` counts
them. For the recall each utterance's own rare words are listed, too, with the score that was found. The beam is 17 and
the acoustic scale 1.5, so no score is above 8.5. The recordings of `ljspeech-200` are read clearly, those of
`test-other-100` are hard. What `calibrate` promises of its own speech is checked.
"""

import time
from collections.abc import Iterator, Sequence

import arcbeam
from benchmarks.data import datasets, graphs
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import boosting

ORDER = 39
TITLE = "Scores calibrated on speech without the phrases"
SETS = ("ljspeech-200", "test-other-100")
BEAM = 17.0
COUNTS = (1_000, 10_000)
SHARES = (0.01, 0.05)
COLUMNS = [
    Column("words in the list", "count", "{:,}"),
    Column("calibrated on", "calibrated"),
    Column("false alarms accepted, %", "accepted", "{:g}"),
    Column("there, %", "there", "{:.1f}"),
    Column("score", "score", "{:g}"),
    Column("seconds", "seconds", "{:.1f}"),
    Column("used on", "used"),
    Column("false alarms, %", "false_alarms", "{:.1f}"),
    Column("recall without, %", "recall_without", "{:.1f}"),
    Column("recall, %", "recall", "{:.1f}"),
    Column("WER without, %", "wer_without", "{:.2f}"),
    Column("WER, %", "wer", "{:.2f}"),
]


def alarms(decoder: arcbeam.CtcDecoder, dataset: datasets.Dataset, boost: arcbeam.Boost) -> float:
    """The share of the utterances that have a listed word more often than without the boost."""
    pairs = zip(decoder.decode(dataset.utterances), decoder.decode(dataset.utterances, boost=boost), strict=True)
    wrong = 0
    for before, after in pairs:
        said, now = before.text.split(), after.text.split()
        wrong += any(now.count(word) > said.count(word) for word in set(now) & boost.phrases.keys())
    return wrong / len(dataset.ids)


def run(context: Context) -> Iterator[Row]:
    graph = graphs.get(boosting.GRAPH, context.progress).graph
    rare = boosting.RareWords.of_graph(graph)
    sets = [datasets.load(name).first(context.utterances) for name in SETS]
    decoder = boosting.decoder(graph, BEAM)
    for count in COUNTS:
        listed = rare.others([reference for dataset in sets for reference in dataset.references], count)
        for calibrated, used in (sets, sets[::-1]):
            for share in SHARES:
                context.step(f"{count:,} words, {100 * share:g} % of {calibrated.name}")
                yield row(decoder, listed, rare, calibrated, used, share)


def row(
    decoder: arcbeam.CtcDecoder,
    listed: Sequence[str],
    rare: boosting.RareWords,
    calibrated: datasets.Dataset,
    used: datasets.Dataset,
    share: float,
) -> Row:
    """Calibrates on one set and decodes the other."""
    began = time.perf_counter()
    boost = arcbeam.Boost(listed).calibrate(decoder, calibrated.utterances, false_alarms=share)
    seconds = time.perf_counter() - began
    there = alarms(decoder, calibrated, boost)
    if there > share:
        raise AssertionError(f"{there:.3f} of the utterances have a false alarm, {share} were accepted")
    (score,) = set(boost.phrases.values())
    lists = [[*rare.said([reference]), *listed] for reference in used.references]
    boosts = [arcbeam.Boost(each, score) for each in lists]
    before = boosting.outcome(used.references, [one.text for one in decoder.decode(used.utterances)], lists)
    texts = [one.text for one in decoder.decode(used.utterances, boost=boosts)]
    after = boosting.outcome(used.references, texts, lists)
    return {
        "count": len(listed),
        "calibrated": calibrated.name,
        "accepted": 100 * share,
        "there": 100 * there,
        "score": score,
        "seconds": seconds,
        "used": used.name,
        "false_alarms": 100 * alarms(decoder, used, boost),
        "recall_without": before.recall,
        "recall": after.recall,
        "wer_without": before.wer,
        "wer": after.wer,
    }
