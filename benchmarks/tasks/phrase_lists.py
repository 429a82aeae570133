"""Lists of phrases for experiments of speed: of one to three words, drawn for each utterance alone.

At most two phrases are runs of words of the utterance's own reference: with many, the search has far fewer tokens than
without a list, because the boosted path leaves all others behind. The words of the others are drawn from all that the
graph can write, each as likely as any other. New words are made of the
beginning of one word and the end of another, so that they are spelled as words are.
"""

from collections.abc import Sequence

import numpy as np

import arcbeam
from benchmarks.harness import seeds
from benchmarks.tasks import boosting
from data.lines import runs

SEED = 0
PHRASES, NEW_WORDS = 1_000, 100
SAID = 2  # phrases of a list, at most, that are in the reference
LONGEST = 3  # words
SHORTEST_HALF = 3  # letters of each of the two words that a new one is made of


class Vocabulary:
    """The words that a graph can write, and lists made of them."""

    def __init__(self, graph: "arcbeam.Graph") -> None:
        self.set = frozenset(boosting.written_words(graph))
        self.words = sorted(self.set)

    def phrases(self, reference: str, number: int, count: int = PHRASES, most_said: int = SAID) -> list[str]:
        """So many different phrases for the utterance of this number."""
        random = np.random.default_rng([seeds.used("phrases", SEED), number, count])
        of_words = [run for words in range(1, LONGEST + 1) for run in runs(reference, words)]
        known = [run for run in dict.fromkeys(of_words) if self.set.issuperset(run.split())]
        said = [known[at] for at in random.permutation(len(known))[: min(most_said, count)].tolist()]
        found = dict.fromkeys(said)
        while len(found) < count:
            for length in random.integers(1, LONGEST + 1, count - len(found)).tolist():
                found[" ".join(self.words[at] for at in random.integers(0, len(self.words), length).tolist())] = None
        return list(found)

    def new_words(self, number: int, count: int = NEW_WORDS) -> list[str]:
        """So many different words that the graph lacks, for the utterance of this number."""
        random = np.random.default_rng([seeds.used("new words", SEED), number, count])
        found: dict[str, None] = {}
        while len(found) < count:
            first, second = (self.words[at] for at in random.integers(0, len(self.words), 2).tolist())
            made = first[: max(SHORTEST_HALF, len(first) // 2)] + second[-max(SHORTEST_HALF, len(second) // 2) :]
            if made.isalpha() and made not in self.set:
                found[made] = None
        return list(found)

    def lists(
        self, references: Sequence[str], count: int = PHRASES, new_words: int = 0, most_said: int = SAID
    ) -> list[list[str]]:
        """The phrases of each utterance, the last ones of them being new words."""
        return [
            [*self.phrases(reference, at, count - new_words, most_said), *self.new_words(at, new_words)]
            for at, reference in enumerate(references)
        ]
