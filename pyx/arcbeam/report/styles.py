"""How transcripts and references are written, and notes on why words that are the same count as errors."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

MARK = re.compile(
    r"[^\W\d_]{2}[.,;:?!](\s|$)"
)  # punctuation at the end of a word, which is no abbreviation of a letter
LETTER = re.compile(r"[^\W\d_]")


@dataclass
class Style:
    """What occurs in some texts; `add` adds those of others."""

    has_lower: bool = False
    has_upper: bool = False
    has_letters: bool = False
    has_marks: bool = False

    def add(self, texts: Iterable[str]) -> None:
        """Texts are written like this, too."""
        for text in texts:
            self.has_lower = self.has_lower or text != text.upper()
            self.has_upper = self.has_upper or text != text.lower()
            self.has_letters = self.has_letters or LETTER.search(text) is not None
            self.has_marks = self.has_marks or MARK.search(text) is not None


def differences(references: Iterable[str], transcripts: Style, *, ignore_case: bool) -> list[str]:
    """Notes on what makes words differ that may be the same."""
    said = Style()
    notes: list[str] = []
    said.add(texts := [text for text in references if text])
    if not texts:
        return notes
    if said.has_marks and not transcripts.has_marks:
        notes.append("the reference has punctuation and the transcripts have none: each word with a mark is an error")
    if transcripts.has_letters and not said.has_letters:
        notes.append(
            "the reference has no letters and the transcripts have: are its words numbers, as in Kaldi's text.int? "
            "Give the file with the words themselves"
        )
    elif not ignore_case and transcripts.has_lower and not said.has_lower:
        notes.append("the reference is in capitals and the transcripts are not; --ignore-case ignores that")
    elif not ignore_case and transcripts.has_upper and not said.has_upper:
        notes.append("the transcripts have capitals and the reference has none; --ignore-case ignores that")
    return notes
