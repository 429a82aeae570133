"""Word error rate with its parts, by jiwer; words are compared as they are written, except that case may be ignored."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from arcbeam.core.packages import require


@dataclass
class Score:
    """Counts of a scoring; add utterances with `add`."""

    substitutions: int = 0
    insertions: int = 0
    deletions: int = 0
    words: int = 0
    utterances: int = 0
    wrong: int = 0  # utterances with any error
    ignore_case: bool = False
    alignments: list = field(default_factory=list, repr=False)
    keep_alignments: bool = False

    def __post_init__(self) -> None:
        self._jiwer = require("jiwer", "a word error rate")

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
        self.words += sum(len(words) for words in result.references)
        self.utterances += len(references)
        self.wrong += sum(any(chunk.type != "equal" for chunk in chunks) for chunks in result.alignments)
        if self.keep_alignments:
            self.alignments += zip(result.references, result.hypotheses, result.alignments, strict=True)

    def __str__(self) -> str:
        rate = "undefined" if self.wer is None else f"{100 * self.wer:.2f} %"
        return (
            f"WER {rate} [ {self.errors:,} / {self.words:,}: {self.substitutions:,} substitutions, "
            f"{self.insertions:,} insertions, {self.deletions:,} deletions ], "
            f"{self.wrong:,} of {self.utterances:,} utterances with errors"
        )
