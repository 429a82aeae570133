"""Word error rate with its parts, by jiwer; words are compared as they are written, except that case may be ignored."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from arcbeam.core.packages import require

COUNTS = ("substitutions", "insertions", "deletions", "words", "utterances", "wrong")


@dataclass
class Score:
    """Counts of a scoring; add utterances with `add`."""

    substitutions: int = 0
    insertions: int = 0
    deletions: int = 0
    words: int = 0
    utterances: int = 0
    wrong: int = 0  # utterances with any error
    by_utterance: list[tuple[int, int]] = field(default_factory=list, repr=False)  # errors and words of each, if kept
    keep_counts: bool = False
    ignore_case: bool = False
    alignments: list = field(default_factory=list, repr=False)
    keep_alignments: bool = False

    def __post_init__(self) -> None:
        self._jiwer = require("jiwer", "a word error rate")

    def counts(self) -> list[int]:
        """The counts, for a run that goes on."""
        return [getattr(self, name) for name in COUNTS]

    def add_counts(self, counts: Sequence[int]) -> None:
        """Adds the counts of an earlier run."""
        for name, value in zip(COUNTS, counts, strict=True):
            setattr(self, name, getattr(self, name) + value)

    @property
    def errors(self) -> int:
        """Substitutions, insertions and deletions together."""
        return self.substitutions + self.insertions + self.deletions

    @property
    def wer(self) -> float | None:
        """Word error rate as a fraction; None if the references have no words."""
        return self.errors / self.words if self.words else None

    def add(self, references: Sequence[str], transcripts: Sequence[str]) -> None:
        """Score pairs of a reference and a transcript."""
        if not references:
            return
        if self.ignore_case:
            references, transcripts = [r.casefold() for r in references], [t.casefold() for t in transcripts]
        # jiwer splits at single blanks only.
        result = self._jiwer.process_words([" ".join(r.split()) for r in references],
                                           [" ".join(t.split()) for t in transcripts])  # fmt: skip
        self.substitutions += result.substitutions
        self.insertions += result.insertions
        self.deletions += result.deletions
        self.utterances += len(references)
        counts = list(zip(map(_errors, result.alignments), map(len, result.references), strict=True))
        if self.keep_counts:
            self.by_utterance += counts
        self.words += sum(words for _, words in counts)
        self.wrong += sum(errors > 0 for errors, _ in counts)
        if self.keep_alignments:
            self.alignments += zip(result.references, result.hypotheses, result.alignments, strict=True)

    def __str__(self) -> str:
        rate = "undefined" if self.wer is None else f"{100 * self.wer:.2f} %"
        return (
            f"WER {rate} [ {self.errors:,} / {self.words:,}: {self.substitutions:,} substitutions, "
            f"{self.insertions:,} insertions, {self.deletions:,} deletions ], "
            f"{self.wrong:,} of {self.utterances:,} utterances with errors"
        )


def _errors(chunks: Any) -> int:
    """The errors of an utterance, of the parts that its alignment has."""
    length = (
        max(c.ref_end_idx - c.ref_start_idx, c.hyp_end_idx - c.hyp_start_idx) for c in chunks if c.type != "equal"
    )
    return sum(length)


def difference(
    better: Sequence[tuple[int, int]], worse: Sequence[tuple[int, int]], resamplings: int = 2000
) -> tuple[float, float]:
    """The 95 % interval of the difference of two word error rates on the same utterances, as fractions.

    A paired bootstrap over utterances (Bisani & Ney 2004): both rates are computed on the same utterances, drawn with
    replacement. `better` and `worse` have the errors and the words of each. The draws are the same in every run.
    """
    import numpy as np

    errors = np.array([other - one for (one, _), (other, _) in zip(better, worse, strict=True)])
    words = np.array([count for _, count in better])
    drawn = np.random.default_rng(0).integers(0, len(words), (resamplings, len(words)))
    of_words = np.maximum(words[drawn].sum(axis=1), 1)
    low, high = np.quantile(errors[drawn].sum(axis=1) / of_words, (0.025, 0.975))
    return float(low), float(high)
