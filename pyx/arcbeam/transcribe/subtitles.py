"""Words with times become subtitles: where a subtitle ends, how its lines are broken, and how long it is shown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from arcbeam.core.calls import lists_fields
from arcbeam.core.checks import check_count, check_real, keep_plain_values
from arcbeam.words import Word

SENTENCE_ENDS, CLAUSE_ENDS = ".?!\u3002\uff1f\uff01", ",;:\u2026\u3001\uff0c"  # also those of Chinese and Japanese
QUOTES = "\"'\u201d\u2019\u00bb)]"  # which may follow them
GAP = 0.08  # seconds between two subtitles of which the first is shown longer than it is said: two frames of film

# What a subtitle costs, of which all together are made as cheap as possible.
OF_PLACES = {"sentence": 0.0, "pause": 0.0, "clause": 1.0, "elsewhere": 3.0}  # by what is at its end
OF_A_SUBTITLE = 1.0  # so that there are no more than needed
OF_EMPTY_SPACE = 1.0  # the square of the share of its room that stays empty, so that subtitles are alike
OF_A_SECOND_TOO_SHORT = 4.0  # of the least time, or of the time that reading takes
OF_A_PAUSE_WITHIN = 4.0  # for each `pause_seconds` that nothing is said


@lists_fields
@dataclass(frozen=True, kw_only=True)
class SubtitleRules:
    """How subtitles are made of words.

    A subtitle ends at a pause or a mark of punctuation if it can. One that is said too fast stays until there was time
    to read it, or until the next one comes. Fast speech may be faster than `chars_per_second`: no word is left out.
    """

    lines: int = 2
    """The most lines of a subtitle."""
    line_chars: int = 42
    """The most characters of a line; a longer word has a line of its own."""
    min_seconds: float = 1.0
    """How long a subtitle is shown at least, unless the next one comes earlier."""
    max_seconds: float = 7.0
    """How long a subtitle is shown at most."""
    chars_per_second: float = 20.0
    """The speed of reading: how long a subtitle is shown at least, by its characters."""
    pause_seconds: float = 0.5
    """A silence of this length or more is a good place for the end of a subtitle."""

    def __post_init__(self) -> None:
        check_count("lines", self.lines, 10, "")
        check_count("line_chars", self.line_chars, 1000, "")
        for name in ("min_seconds", "pause_seconds"):
            check_real(name, getattr(self, name), "of seconds, at least 0", above=0.0, inclusive=True)
        check_real("max_seconds", self.max_seconds, "of seconds above 0", above=0.0)
        check_real("chars_per_second", self.chars_per_second, "above 0", above=0.0)
        if self.min_seconds > self.max_seconds:
            raise ValueError(
                f"min_seconds: expected at most max_seconds={self.max_seconds:g}, got {self.min_seconds:g}"
            )
        keep_plain_values(self)


class Subtitle(NamedTuple):
    """Lines, and the seconds from which and until which they are shown."""

    start: float
    end: float
    lines: tuple[str, ...]


def make_subtitles(sentences: Iterable[Sequence[Word]], rules: SubtitleRules) -> list[Subtitle]:
    """Subtitles of the words of a recording, sentence by sentence.

    Where they end is found by dynamic programming over the words: the cheapest way to cut all of them.
    """
    words, is_last = [], []
    for sentence in sentences:
        words += [_Timed(one.start or 0.0, one.end or 0.0, " ".join(one.word.split())) for one in sentence]
        is_last += [False] * (len(sentence) - 1) + [True] * bool(sentence)
    cuts = _cuts(words, is_last, rules)
    found: list[Subtitle] = []
    for begin, end in pairwise(cuts):
        after = words[end].start if end < len(words) else math.inf
        lines = break_lines([word.text for word in words[begin:end]], rules)
        assert lines is not None
        found.append(Subtitle(words[begin].start, _shown_until(words[begin:end], after, rules), lines))
    return found


class _Timed(NamedTuple):
    start: float
    end: float
    text: str


def _cuts(words: Sequence[_Timed], is_last: Sequence[bool], rules: SubtitleRules) -> list[int]:
    """The places between words where subtitles begin and end, 0 and the number of words among them."""
    costs, before = [0.0] + [math.inf] * len(words), [0] * (len(words) + 1)
    for end in range(1, len(words) + 1):
        after = words[end].start if end < len(words) else math.inf
        place = OF_PLACES[_place(words, is_last, end, rules)]
        silence = 0.0
        for begin in range(end - 1, -1, -1):
            if begin + 1 < end:
                pause = words[begin + 1].start - words[begin].end
                silence += pause if pause >= rules.pause_seconds else 0.0
            part = words[begin:end]
            if begin < end - 1 and not _fits(part, rules):
                break
            cost = costs[begin] + place + OF_A_SUBTITLE + _own_cost(part, after, silence, rules)
            if cost < costs[end]:
                costs[end], before[end] = cost, begin
    cuts = [len(words)]
    while cuts[-1]:
        cuts.append(before[cuts[-1]])
    return cuts[::-1]


def _fits(part: Sequence[_Timed], rules: SubtitleRules) -> bool:
    """Whether words of one subtitle have room in its lines and its time."""
    if part[-1].end - part[0].start > rules.max_seconds:
        return False
    return break_lines([word.text for word in part], rules) is not None


def _own_cost(part: Sequence[_Timed], after: float, silence: float, rules: SubtitleRules) -> float:
    """The cost of a subtitle but for its place."""
    chars = sum(len(word.text) for word in part) + len(part) - 1
    empty = max(0.0, 1.0 - chars / (rules.lines * rules.line_chars))
    shown = _shown_until(part, after, rules) - part[0].start
    lacking = max(0.0, _least_seconds(chars, rules) - shown)
    silences = silence / rules.pause_seconds if rules.pause_seconds else 0.0
    return OF_EMPTY_SPACE * empty**2 + OF_A_SECOND_TOO_SHORT * lacking + OF_A_PAUSE_WITHIN * silences


def _least_seconds(chars: int, rules: SubtitleRules) -> float:
    return min(rules.max_seconds, max(rules.min_seconds, chars / rules.chars_per_second))


def _shown_until(part: Sequence[_Timed], after: float, rules: SubtitleRules) -> float:
    """The second until which a subtitle is shown: to the end of its words, or longer while there is time."""
    start, said = part[0].start, max(word.end for word in part)
    chars = sum(len(word.text) for word in part) + len(part) - 1
    wanted = start + _least_seconds(chars, rules)
    end = max(said, min(wanted, after - GAP))
    return max(start, min(end, start + rules.max_seconds, after))


def _place(words: Sequence[_Timed], is_last: Sequence[bool], end: int, rules: SubtitleRules) -> str:
    """What is at the end of a subtitle."""
    text = words[end - 1].text.rstrip(QUOTES)
    if is_last[end - 1] or text[-1:] in tuple(SENTENCE_ENDS):
        return "sentence"
    if words[end].start - words[end - 1].end >= rules.pause_seconds:
        return "pause"
    return "clause" if text[-1:] in tuple(CLAUSE_ENDS) else "elsewhere"


def break_lines(words: Sequence[str], rules: SubtitleRules) -> tuple[str, ...] | None:
    """The words in as few lines as they need, which are as even as possible; None if they do not fit.

    A word that is longer than a line has one of its own. A line ends with a mark of punctuation rather than elsewhere.
    """
    if not words:
        return ()
    for count in range(1, rules.lines + 1):
        found = _broken(words, count, rules.line_chars)
        if found is not None:
            return found
    return None


def _broken(words: Sequence[str], count: int, width: int) -> tuple[str, ...] | None:
    """The words in so many lines: the longest line as short as possible, or a little longer to end at a mark."""
    if len(words) < count:
        return None
    if count == 1:
        line = " ".join(words)
        return (line,) if len(line) <= width or len(words) == 1 else None
    best: tuple[float, tuple[str, ...]] | None = None
    length = -1
    for end in range(1, len(words) - count + 2):
        length += 1 + len(words[end - 1])
        if length > width and end > 1:
            break
        rest = _broken(words[end:], count - 1, width)
        if rest is None:
            continue
        lines = (" ".join(words[:end]), *rest)
        is_mark = words[end - 1].rstrip(QUOTES)[-1:] in tuple(SENTENCE_ENDS + CLAUSE_ENDS)
        cost = max(map(len, lines)) - (width / 4 if is_mark else 0)
        if best is None or cost < best[0]:
            best = cost, lines
    return None if best is None else best[1]
