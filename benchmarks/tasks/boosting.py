"""Lists of rare words to boost, and what comes of them: word errors, recall of listed words, false alarms.

A rare word is one that the graph can write and that is none of the 5,000 most frequent words of the text behind the
graph's language model, as in Le et al. 2021 (arXiv 2104.02194). A list holds the rare words of a reference, or of all
references of a set, and distractors: rare words that were not said. A phrase is some words in a row of a reference, one
of which is rare.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any

import numpy as np

import arcbeam
from arcbeam.files.writing import replacing_text
from benchmarks.adapters import SearchOptions, gpu
from benchmarks.data import datasets, graphs
from benchmarks.harness import seeds
from data.lines import runs, text_lines
from data.word_errors import word_errors

GRAPH = "char-3gram"
ACOUSTIC_SCALE = 1.5  # the best of `wer` on ljspeech-200
TUNED_ON = "ljspeech-200"
SETS = (TUNED_ON, "test-other-100", "an4-test")
FREQUENT = 5_000
SEED = 0


@cache
def frequent_words(count: int = FREQUENT) -> frozenset[str]:
    """The most frequent words of the books; counted on first use (a minute), kept in the cache."""
    kept = datasets.CACHE / f"frequent-words-{count}.txt"
    with graphs.one_at_a_time(kept.name):
        if not kept.exists():
            words: Counter[str] = Counter()
            for line in text_lines(datasets.data_folder() / "text" / "books.txt.xz"):
                words.update(line.split())
            ranked = sorted(words, key=lambda word: (-words[word], word))
            with replacing_text(kept) as out:
                out.writelines(f"{word}\n" for word in ranked[:count])
    return frozenset(kept.read_text(encoding="utf-8").split())


class RareWords:
    """The rare words of a vocabulary."""

    def __init__(self, vocabulary: Collection[str]) -> None:
        self.vocabulary = frozenset(vocabulary)
        self.words = sorted(self.vocabulary - frequent_words())
        self.set = frozenset(self.words)

    @classmethod
    def of_graph(cls, graph: "arcbeam.Graph") -> "RareWords":
        """Those that a graph can write."""
        return cls(written_words(graph))

    def said(self, references: Iterable[str]) -> list[str]:
        """Those in references, each once, sorted."""
        return sorted(self.set.intersection(chain.from_iterable(map(str.split, references))))

    def others(self, references: Iterable[str], count: int, *numbers: int) -> list[str]:
        """So many that are not in the references, drawn at random by the seed and these numbers."""
        return drawn(self.words, self.said(references), count, *numbers)

    def lists(self, references: Sequence[str], count: int) -> list[list[str]]:
        """For each utterance its own rare words, and so many others, drawn for it alone."""
        return [
            [*self.said([reference]), *self.others([reference], count, count, at)]
            for at, reference in enumerate(references)
        ]

    def phrases(self, references: Iterable[str], count: int) -> list[str]:
        """Those of so many words in references, each once, sorted; the vocabulary has all words of each."""
        found = {run for reference in references for run in runs(reference, count)}
        return sorted(run for run in found if self.vocabulary.issuperset(run.split()) and self.set & set(run.split()))

    def phrase_lists(self, references: Sequence[str], words: int, pool: Sequence[str], count: int) -> list[list[str]]:
        """For each utterance its own phrases of so many words, and so many others of the pool that nobody says."""
        said = self.phrases(references, words)
        return [
            [*self.phrases([reference], words), *drawn(pool, said, count, count, words, at)]
            for at, reference in enumerate(references)
        ]


def drawn(pool: Sequence[str], spoken: Collection[str], count: int, *numbers: int) -> list[str]:
    """So many of a pool that were not spoken, drawn at random by the seed and these numbers."""
    random = np.random.default_rng([seeds.used("distractors", SEED), *numbers])
    places = random.choice(len(pool), min(count + len(spoken), len(pool)), replace=False)
    return [one for one in map(pool.__getitem__, places.tolist()) if one not in spoken][:count]


def decoder(graph: "arcbeam.Graph", beam: float, threads: int = 2, **more: Any) -> "arcbeam.CtcDecoder":
    return gpu.decoder(graph, SearchOptions(beam, acoustic_scale=ACOUSTIC_SCALE), "cpu", threads=threads, **more)


@dataclass(frozen=True)
class Outcome:
    """What texts have of references and of the words or phrases listed for each.

    Attributes
    ----------
    words, errors : int
        Words of the references, and word errors of the texts.
    listed, right, false : int
        Occurrences of what is listed in the references; those of them that the text has, too; and occurrences in the
        text beyond those in the reference. An utterance's words are compared without their order.
    utterances : int
    """

    words: int
    errors: int
    listed: int
    right: int
    false: int
    utterances: int

    @property
    def wer(self) -> float:
        return 100 * self.errors / max(1, self.words)

    @property
    def recall(self) -> float:
        """Percent of the occurrences of listed words."""
        return 100 * self.right / max(1, self.listed)

    @property
    def false_alarms(self) -> float:
        """Occurrences in a hundred utterances."""
        return 100 * self.false / max(1, self.utterances)


def outcome(
    references: Sequence[str], texts: Sequence[str], listed: Sequence[Collection[str]] | Collection[str]
) -> Outcome:
    """Compares texts with references; `listed` has the words of each utterance, or those of all as a set."""
    of_all = listed if isinstance(listed, (set, frozenset)) else None
    words = errors = total = right = false = 0
    for at, (reference, text) in enumerate(zip(references, texts, strict=True)):
        own = of_all if of_all is not None else set(listed[at])  # type: ignore[index]
        wanted, found = _occurrences(reference, own), _occurrences(text, own)
        words += len(reference.split())
        errors += _errors(reference, text)
        total += wanted.total()
        right += (wanted & found).total()
        false += (found - wanted).total()
    return Outcome(words, errors, total, right, false, len(references))


def _occurrences(text: str, listed: Collection[str]) -> Counter[str]:
    lengths = {one.count(" ") + 1 for one in listed}
    return Counter(run for count in lengths for run in runs(text, count) if run in listed)


@cache
def _errors(reference: str, text: str) -> int:
    return word_errors(reference.split(), text.split())


def written_words(graph: "arcbeam.Graph") -> set[str]:
    """The words that some arc of a graph writes."""
    assert graph.word_symbols is not None
    return {graph.word_symbols[word] for word in np.unique(graph.words).tolist() if word}
