"""Word error rate against the magnitude of a boost, with accurate and inaccurate lists, at three beams.

The setting of Figure 6 of Galvez & Kaldewey 2023, on other sets, with another graph and model; their rule of thumb is a
boost of half the beam. One list is for a whole set. The accurate list has the rare words of the set's references that
the graph can write, the inaccurate one as many rare words that were never said, the mixed one the accurate words and
10,000 that were never said. Rare words are those outside the 5,000 most frequent of the books. The magnitude is the
score of every word of the list, a natural log, added to costs whose log-probs are scaled by 1.5. Rows without a
magnitude compare the best magnitude (the smallest of equals) with half the beam. Recall is the share of the listed
words that were said and are found, by their counts in an utterance; a false alarm is a listed word that the reference
lacks. Before a row is made, the words that the hypotheses say were boosted are checked to be those of their texts.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import arcbeam
from benchmarks.data import datasets, graphs
from benchmarks.harness.plots import line_plots
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import boosting
from benchmarks.tasks.boosting import Outcome

ORDER = 36
TITLE = "Word errors against the magnitude of a boost"
BEAMS = (8.0, 12.0, 17.0)
MAGNITUDES = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.5, 10.0, 12.0, 14.0, 17.0, 20.0, 25.0)  # with half the beams
ACCURATE, INACCURATE, MIXED = "accurate", "inaccurate", "mixed"
MIXED_WITH = 10_000
DRAWN = 70.0, 120.0  # percent of the WER without a boost
COLUMNS = [
    Column("set", "set"),
    Column("list", "list"),
    Column("words of it", "size", "{:,}"),
    Column("magnitude", "magnitude", "{:g}"),
    *(Column(f"WER at beam {beam:g}, %", f"wer_{beam:g}", "{:.2f}") for beam in BEAMS),
    *(Column(f"recall at beam {beam:g}, %", f"recall_{beam:g}", "{:.1f}") for beam in BEAMS),
    *(Column(f"false alarms in 100 utterances at beam {beam:g}", f"false_{beam:g}", "{:.1f}") for beam in BEAMS),
    Column("beam", "beam", "{:g}"),
    Column("WER without, %", "wer_without", "{:.2f}"),
    Column("lowest WER, %", "wer_best", "{:.2f}"),
    Column("at a magnitude of", "best", "{:g}"),
    Column("WER at half the beam, %", "wer_half", "{:.2f}"),
]


def measure(
    decoder: "arcbeam.CtcDecoder", dataset: datasets.Dataset, words: Sequence[str], magnitude: float
) -> Outcome:
    """What a boost of these words makes of a set."""
    found = decoder.decode(dataset.utterances, boost=arcbeam.Boost(words, magnitude) if magnitude else None)
    listed = frozenset(words)
    for hypothesis in found if magnitude else ():
        written = [word for word in hypothesis.text.split() if word in listed]
        if [boosted.phrase for boosted in hypothesis.boosts] != written:
            raise AssertionError(f"{hypothesis.boosts} are not the listed words of {hypothesis.text!r}")
        if hypothesis.boost_score != magnitude * len(written):
            raise AssertionError(f"a boost of {hypothesis.boost_score} for {len(written)} words of {magnitude}")
    return boosting.outcome(dataset.references, [hypothesis.text for hypothesis in found], listed)


def run(context: Context) -> Iterator[Row]:
    graph = graphs.get(boosting.GRAPH, context.progress).graph
    rare = boosting.RareWords.of_graph(graph)
    decoders = {beam: boosting.decoder(graph, beam) for beam in BEAMS}
    for name in boosting.SETS:
        dataset = datasets.load(name).first(context.utterances)
        accurate = rare.said(dataset.references)
        words_of = {
            ACCURATE: accurate,
            INACCURATE: rare.others(dataset.references, len(accurate)),
            MIXED: [*accurate, *rare.others(dataset.references, MIXED_WITH)],
        }
        for kind, words in words_of.items():
            rows: list[Row] = []
            for magnitude in MAGNITUDES:
                context.step(f"{name}, {kind}, magnitude {magnitude:g}")
                row: Row = {"set": name, "list": kind, "size": len(words), "magnitude": magnitude}
                for beam, decoder in decoders.items():
                    got = measure(decoder, dataset, words, magnitude)
                    row |= {f"wer_{beam:g}": got.wer, f"false_{beam:g}": got.false_alarms}
                    if kind != INACCURATE:
                        row |= {f"recall_{beam:g}": got.recall}
                rows.append(row)
            yield from rows
            yield from compared(name, kind, rows)


def compared(name: str, kind: str, rows: Sequence[Row]) -> Iterator[Row]:
    """For each beam: without a boost, the best magnitude, half the beam."""
    for beam in BEAMS:
        each: Any = rows
        wers = {row["magnitude"]: row[f"wer_{beam:g}"] for row in each}
        best = min(wers, key=lambda magnitude: (wers[magnitude], magnitude))
        yield {
            "set": name, "list": kind, "beam": beam, "wer_without": wers[0.0], "wer_best": wers[best], "best": best,
            "wer_half": wers[beam / 2],
        }  # fmt: skip


def draw(rows: list[Row], path: Path) -> None:
    """WER over that without a boost, against the magnitude, a panel a set; curves leave at the top."""
    panels: dict[str, dict[str, list[tuple[float, float]]]] = {}
    without: dict[tuple[str, str, float], float] = {}
    half: dict[str, float] = {}
    for row in rows:
        each: Any = row
        if "magnitude" in row:
            panel = panels.setdefault(f"magnitude, {each['set']}", {})
            for beam in BEAMS:
                wer = each[f"wer_{beam:g}"]
                share = 100 * wer / max(without.setdefault((each["set"], each["list"], beam), wer), 1e-9)
                name = f"{each['list']}, beam {beam:g}"
                panel.setdefault(name, []).append((each["magnitude"], share))
                half[name] = beam / 2
    line_plots(path, panels, "WER, % of that without a boost", limits=DRAWN, marks=("half the beam", half))
