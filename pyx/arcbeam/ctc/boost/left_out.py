"""The warning about phrases that a graph cannot write, which says why, and what to do."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence

from arcbeam.core.show import shortened
from arcbeam.core.warn import warn
from arcbeam.ctc.boost._boost import WordIndex
from arcbeam.ctc.boost.spellings import example
from arcbeam.graph.graph import Graph

SHOWN, SAMPLE = 10, 1000  # words that the warning names, and words that are searched for hints


def warn_of_left_out(
    graph: Graph, written: WordIndex, words: Mapping[str, str], phrases: tuple[int, int], lists: Sequence[str]
) -> None:
    """Warns once of phrases that are left out: `phrases` counts (left out, all), `words` has words and reasons."""
    count, of = phrases
    sample = list(itertools.islice(words, SAMPLE))
    where = lists[0] + (f" and {len(lists) - 1:,} more" if len(lists) > 1 else "")
    if graph.open_slot is None:
        shown = [shortened(word) for word in sample[:SHOWN]]
        cased = next((c for word in sample for c in (word.lower(), word.upper()) if c != word and c in written), None)
        advice = f"it has {cased!r}; " if cased else ""
        advice += "a graph built with open_slot=True (--open-slot) can write words that it lacks"
    else:
        shown = [f"{shortened(word)}: {words[word]}" for word in sample[:SHOWN]]
        advice = f"pronunciations= (--boost-lexicon) spells words in the graph's tokens{example(graph)}"
    if any(map(_ends_in_score, sample)):
        advice = f"in a file a score follows its phrase after a tab, not after a space or a comma; {advice}"
    warn(
        f"boost: {count:,} of {of:,} phrase{'s'[: of != 1]}{where} {'is' if count == 1 else 'are'} left out, because "
        f"the graph cannot write {len(words):,} word{'s'[: len(words) != 1]} ({', '.join(shown)}"
        f"{', ...' if len(words) > SHOWN else ''}); {advice}"
    )


def _ends_in_score(word: str) -> bool:
    """Whether a word is a number, or another word and a number with a comma or the like between them."""
    return re.fullmatch(r"(.*[^\d\s][,;:|])?[+-]?[\d.]*\d", word) is not None
