"""Boosted words that a beam loses, and how many of them because candidates are first pruned without their boost.

Law 9 drops a candidate outside best + beam before it adds the boost (c1). Counted are the occurrences of listed words
that were said and that a search with a beam of 28, without max_active and with the same boost, finds: how many of them
are lost at a smaller beam; how many are lost at that beam if the boost is in the weights of the graph's arcs, which is
what law 9 would be without (c1); and how many this second search finds but the first does not, and the other way round.
One list is for a whole set: the rare words of its references and 1,000 others. Costs are those of log-probs scaled by
1.5. With the large beam both searches are checked to say the same words.

Rows with a `label` column tell when the graph writes a word, on best paths without a boost: how many of the word's
letters were read up to there, how many follow, and the frames from there to the first frame of the last letter (below
zero where the word is written after its last letter). A boost helps from that frame on, and not before.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import arcbeam
from benchmarks.adapters import SearchOptions, gpu
from benchmarks.data import datasets, graphs
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import boosting

ORDER = 37
TITLE = "Boosted words that a beam loses"
BEAMS = (8.0, 12.0, 17.0)
WIDE = 28.0
SCORES = (2.0, 4.0, 6.0, 8.0)
DISTRACTORS = 1_000
EPSILON = 0xFFFF
COUNTED = ("wide", "lost", "lost_composed", "by_c1", "thanks")
ALL, RARE = "all words", "rare words"
TAKES: dict[str, str] = {}
COLUMNS = [
    Column("set", "set"),
    Column("score", "score", "{:g}"),
    Column("beam", "beam", "{:g}"),
    Column("found with the large beam", "wide", "{:,}"),
    Column("lost", "lost"),
    Column("lost, %", "lost_percent", "{:.1f}"),
    Column("lost with the boost in the graph", "lost_composed"),
    Column("by (c1) alone", "by_c1"),
    Column("by (c1) alone, %", "by_c1_percent", "{:.1f}"),
    Column("found thanks to (c1)", "thanks"),
    Column("WER, %", "wer", "{:.2f}"),
    Column("WER with the boost in the graph, %", "wer_composed", "{:.2f}"),
    Column("label of", "label"),
    Column("words", "words", "{:,}"),
    Column("letters", "letters", "{:.1f}"),
    Column("read up to the label", "read", "{:.1f}"),
    Column("words with letters left, %", "early", "{:.1f}"),
    Column("frames from label to last letter, mean", "frames", "{:.1f}"),
    Column("10 % have at most", "frames_10", "{:g}"),
    Column("half", "frames_50", "{:g}"),
    Column("90 %", "frames_90", "{:g}"),
]


def boosted_graph(graph: "arcbeam.Graph", words: Sequence[str], score: float) -> "arcbeam.Graph":
    """The graph with the boost of these words in the weights of the arcs that write them; for scores of at least 0."""
    assert graph.word_symbols is not None
    listed, fields = set(words), graph.fields()
    ids = [number for number, word in graph.word_symbols.items() if word in listed]
    arcs = np.flatnonzero(np.isin(graph.words, ids))
    states, targets = graph.states.copy(), graph.targets.copy()
    targets["weight"][arcs] -= np.float32(score)
    emitting = arcs[graph.columns[arcs] != EPSILON]
    sources = np.searchsorted(states["first_arc"], emitting, side="right") - 1
    smallest = states["smallest_weight"].copy()
    np.minimum.at(smallest, sources, targets["weight"][emitting])
    states["smallest_weight"] = smallest
    columns = {**fields["columns"], "states": states, "targets": targets}
    return arcbeam.Graph(**fields | {"columns": columns})


def right(references: Sequence[str], texts: Sequence[str], listed: frozenset[str]) -> Counter[tuple[int, str]]:
    """Occurrences of listed words that were said and are in the text, by utterance and word."""
    found: Counter[tuple[int, str]] = Counter()
    for at, (reference, text) in enumerate(zip(references, texts, strict=True)):
        both = Counter(reference.split()) & Counter(text.split())
        found.update({(at, word): count for word, count in both.items() if word in listed})
    return found


def search(graph: "arcbeam.Graph", beam: float) -> "arcbeam.CtcDecoder":
    if beam != WIDE:
        return boosting.decoder(graph, beam)
    return gpu.decoder(graph, SearchOptions(beam, None, boosting.ACOUSTIC_SCALE), "cpu", threads=2)  # type: ignore[arg-type]


def lost(context: Context, dataset: datasets.Dataset, graph: "arcbeam.Graph", words: Sequence[str]) -> Iterator[Row]:
    """Rows of a set, for each score and beam."""
    listed, references = frozenset(words), dataset.references
    for score in SCORES:
        context.step(f"{dataset.name}, score {score:g}")
        boost, composed = arcbeam.Boost(words, score), boosted_graph(graph, words, score)

        def texts(beam: float, boost: "arcbeam.Boost" = boost) -> list[str]:
            return [h.text for h in search(graph, beam).decode(dataset.utterances, boost=boost)]

        def texts_composed(beam: float, composed: "arcbeam.Graph" = composed) -> list[str]:
            return [h.text for h in search(composed, beam).decode(dataset.utterances)]

        wide = texts(WIDE)
        if wide != texts_composed(WIDE):
            raise AssertionError(f"{dataset.name}, score {score:g}: with a large beam the two searches differ")
        target = right(references, wide, listed)
        for beam in BEAMS:
            of_law, of_graph = texts(beam), texts_composed(beam)
            found = right(references, of_law, listed) & target
            found_composed = right(references, of_graph, listed) & target
            counts = {
                "wide": target.total(),
                "lost": (target - found).total(),
                "lost_composed": (target - found_composed).total(),
                "by_c1": (found_composed - found).total(),
                "thanks": (found - found_composed).total(),
            }
            yield {
                **shares({"set": dataset.name, "score": score, "beam": beam} | counts),
                "wer": boosting.outcome(references, of_law, listed).wer,
                "wer_composed": boosting.outcome(references, of_graph, listed).wer,
            }


def shares(row: Row) -> Row:
    """The row with what percent of the occurrences is lost."""
    each: Any = row
    return row | {f"{key}_percent": 100 * each[key] / max(1, each["wide"]) for key in ("lost", "by_c1")}


def summed(rows: Sequence[Row]) -> Iterator[Row]:
    """The counts of all sets."""
    of_all: dict[tuple[Any, Any], Counter[str]] = {}
    for row in rows:
        counts: Any = {key: row[key] for key in COUNTED}
        of_all.setdefault((row["score"], row["beam"]), Counter()).update(counts)
    for (score, beam), total in of_all.items():
        yield shares({"set": "all", "score": score, "beam": beam} | {key: total[key] for key in COUNTED})


def labels(hypothesis: "arcbeam.Hypothesis", graph: "arcbeam.Graph") -> Iterator[tuple[str, int, int, int]]:
    """Of each word of a best path: the word, its letters, those read up to its label, frames to its last letter."""
    columns, begins, _ = hypothesis._spans
    arcs = hypothesis.arcs
    frames = np.cumsum(graph.columns[arcs] != EPSILON)  # read up to an arc, its own included
    written = frames[graph.words[arcs] != 0] - 1  # the frame that writes the word
    is_letter = columns != graph.separator_column
    starts = begins[is_letter]
    for word, frame in zip(hypothesis.words, written.tolist(), strict=True):
        own = starts[(starts >= word.start_frame) & (starts < word.end_frame)]
        if len(own):
            yield word.word, len(own), int((own <= frame).sum()), int(own[-1]) - frame


def early(dataset: datasets.Dataset, graph: "arcbeam.Graph", rare: frozenset[str]) -> Iterator[Row]:
    """When the graph writes the words of a set."""
    found = [each for h in search(graph, BEAMS[-1]).decode(dataset.utterances) for each in labels(h, graph)]
    for kind, kept in ((ALL, found), (RARE, [each for each in found if each[0] in rare])):
        if kept:
            letters, read, frames = (np.array([each[i] for each in kept]) for i in (1, 2, 3))
            yield {
                "set": dataset.name, "label": kind, "words": len(kept), "letters": float(letters.mean()),
                "read": float(read.mean()), "early": 100 * float((read < letters).mean()),
                "frames": float(frames.mean()),
                **{f"frames_{p}": int(np.percentile(frames, p, method="lower")) for p in (10, 50, 90)},
            }  # fmt: skip


def run(context: Context) -> Iterator[Row]:
    graph = graphs.get(boosting.GRAPH, context.progress).graph
    rare = boosting.RareWords.of_graph(graph)
    sets = [datasets.load(name).first(context.utterances) for name in boosting.SETS]
    rows: list[Row] = []
    for dataset in sets:
        words = [*rare.said(dataset.references), *rare.others(dataset.references, DISTRACTORS)]
        for row in lost(context, dataset, graph, words):
            rows.append(row)
            yield row
    yield from summed(rows)
    for dataset in sets:
        yield from early(dataset, graph, rare.set)
