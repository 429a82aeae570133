"""L: from tokens to words; the last token of a word gets a label of its own, a mark, if determinization needs it.

A mark needs no epsilon arc, as a disambiguation symbol after the word would. `Labels.unmark` makes it the token again.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from arcbeam.recipe.arrays import ArcArrays
from arcbeam.recipe.lexicon import Lexicon

#: The separators that may stand between words: none at all, at most one, any number, exactly one, or at least one.
#: With the last two, sentences may begin and end with or without a separator.
SEPARATOR_RULES = ("none", "optional", "loop", "one", "many")


@dataclass
class Labels:
    """Input labels of L: columns + 1, then the back-off symbol #0, then marked tokens."""

    num_columns: int
    marked: dict[tuple[int, int], int]  # by (column, number from 1); the slot's column comes after all others

    @property
    def slot(self) -> int:
        """The label of the pseudo-token."""
        return self.mark(self.num_columns, 1)

    @property
    def backoff(self) -> int:
        """The label of #0."""
        return self.num_columns + 1

    def mark(self, column: int, number: int) -> int:
        """The label of a marked token; a new label if it has none yet."""
        return self.marked.setdefault((column, number), self.num_columns + 2 + len(self.marked))

    def unmark(self) -> ArcArrays:
        """One state that reads tokens and writes tokens and marked tokens; #0 is written without reading."""
        plain = np.arange(1, self.num_columns + 1)
        groups: list[tuple[object, ...]] = [(0, 0, plain, plain), (0, 0, 0, self.backoff)]
        if self.marked:
            columns = np.array([column for column, _ in self.marked])
            groups.append((0, 0, columns + 1, np.array(list(self.marked.values()))))
        return ArcArrays.join(groups, finals={0: 0.0})


def ambiguous(lexicon: Lexicon, chosen: npt.NDArray[np.intp], prefixes: bool) -> dict[int, int]:
    """The pronunciations that need a mark, by its number from 1; with `prefixes` also those that begin another one."""
    text = lexicon.columns.astype("<u2").tobytes()
    keys = [text[2 * lexicon.offsets[i] : 2 * lexicon.offsets[i + 1]] for i in chosen]
    same: dict[bytes, list[int]] = defaultdict(list)
    for i, key in zip(chosen, keys, strict=True):
        same[key].append(int(i))
    beginnings = {key[:end] for key in same for end in range(2, len(key), 2)} if prefixes else set()
    marks: dict[int, int] = {}
    for key, members in same.items():
        first = 1 if key in beginnings else 0
        marks.update((i, number) for number, i in enumerate(members, first) if number)
    return marks


def make_lexicon_fst(
    lexicon: Lexicon,
    num_columns: int,
    words_in_lm: npt.NDArray[np.bool_],
    rule: str,
    mark_prefixes: bool = False,
    slot: bool = False,
) -> tuple[ArcArrays, Labels]:
    """Makes L, which writes a word on its first arc; `slot`: a word for the pseudo-token, of the label after #0."""
    if rule not in SEPARATOR_RULES:
        raise ValueError(f"expected a separator rule among {SEPARATOR_RULES}, got {rule!r}")
    if rule != "none" and lexicon.separator_column is None:
        raise ValueError(f"the separator rule {rule!r} needs a separator token, but the lexicon has none")
    chosen = np.flatnonzero(words_in_lm[lexicon.word_index])
    labels = Labels(num_columns, {})
    # Without a separator after each word, determinization of unmarked prefixes would not end, or take very long.
    marks = ambiguous(lexicon, chosen, mark_prefixes or rule not in ("one", "many"))

    # States: 0 before a word, 1 after it (the same state if nothing has to separate words), 2 and so on within
    # words.
    after = 0 if rule in ("none", "loop") else 1
    lengths = np.diff(lexicon.offsets)[chosen].astype(np.int64)
    is_chosen = np.repeat(words_in_lm[lexicon.word_index], np.diff(lexicon.offsets))
    inputs = lexicon.columns[is_chosen].astype(np.int32) + 1
    last = np.cumsum(lengths) - 1
    first = last - lengths + 1
    position = {int(i): n for n, i in enumerate(chosen)}
    for i, number in marks.items():
        at = last[position[i]]
        inputs[at] = labels.mark(int(inputs[at]) - 1, number)
    outputs = np.zeros(len(inputs), np.int32)
    outputs[first] = lexicon.word_index[chosen] + 1
    costs = np.zeros(len(inputs), np.float32)
    costs[first] = lexicon.costs[chosen]
    # Arc k of all words' arcs leads to state base + k, except the last arc of a word. It starts where the arc
    # before it ends.
    base = 3
    targets = np.arange(len(inputs), dtype=np.int32) + base
    sources = targets - 1
    sources[first] = 0
    targets[last] = after

    backoff = labels.backoff
    groups: list[tuple[object, ...]] = [
        (0, 0, backoff, len(lexicon.words) + 1),
        (sources, targets, inputs, outputs, costs),
    ]
    if slot:
        groups.append((0, after, labels.slot, len(lexicon.words) + 2))
    # This keeps one path for each reading: if an epsilon leads from state 1 to state 0, only state 0 is final.
    finals = {0: 0.0} if rule == "optional" else {0: 0.0, after: 0.0}
    start = 0
    separator = 0 if lexicon.separator_column is None else lexicon.separator_column + 1
    if rule == "loop":
        groups.append((0, 0, separator, 0))
    elif rule == "optional":
        groups += [(1, 0, separator, 0), (1, 0, 0, 0)]
        start = 1
    elif rule == "one":
        groups += [(1, 0, separator, 0), (2, 0, separator, 0), (2, 0, 0, 0)]
        start = 2
    elif rule == "many":
        groups += [(1, 2, separator, 0), (2, 2, separator, 0), (2, 0, 0, 0)]
        start = 2
    return ArcArrays.join(groups, finals, start), labels
