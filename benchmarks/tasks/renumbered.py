"""The same task with its columns and words in another order: what a search says of it differs only by its ties.

Where scores are equal, flashlight-text goes by addresses and by what its sorts leave behind, and the baseline by the
numbers of columns and words. Neither means anything, so a decoder that gives another answer once they are numbered
otherwise has settled a tie (or, as look-ahead scores are float32 sums in the order of the columns, two scores that
differ in the last digit). And where one decoder, numbered otherwise, gives the other's answer, the two searches differ
in how they settle ties, and in nothing else.
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from arcbeam.graph.token_table import TokenTable
from arcbeam.recipe.lexicon import Lexicon
from benchmarks.adapters.baseline import Task


def renumbered(task: Task, seed: int) -> tuple[Task, npt.NDArray[np.intp]]:
    """The task in a random order, and the column that each of its columns was: log-probs are ``old[:, columns]``."""
    rng = np.random.default_rng(seed)
    columns = rng.permutation(len(task.tokens))
    now = np.argsort(columns)  # where an old column is
    tokens = TokenTable.from_list(
        [task.tokens[column] for column in columns], None if task.tokens.blank is None else int(now[task.tokens.blank])
    )
    lexicon = None if task.lexicon is None else _shuffled(task.lexicon, now, rng)
    silence = None if task.silence is None else int(now[task.silence])
    return replace(task, tokens=tokens, lexicon=lexicon, silence=silence), columns


def _shuffled(lexicon: Lexicon, now: npt.NDArray[np.intp], rng: np.random.Generator) -> Lexicon:
    """The lexicon with its columns renamed and its words, and so their spellings, in another order."""
    words = rng.permutation(len(lexicon.words))
    owner = np.argsort(words)[lexicon.word_index]
    order = np.argsort(owner, kind="stable")
    begin, length = lexicon.offsets[:-1].astype(np.int64)[order], np.diff(lexicon.offsets.astype(np.int64))[order]
    offsets = np.concatenate([[0], np.cumsum(length)])
    places = np.repeat(begin - offsets[:-1], length) + np.arange(offsets[-1])
    separator = lexicon.separator_column
    return replace(
        lexicon,
        words=tuple(lexicon.words[i] for i in words),
        word_index=owner[order].astype(np.uint32),
        offsets=offsets.astype(np.uint32),
        columns=now[lexicon.columns[places]].astype(np.uint16),
        costs=lexicon.costs[order],
        separator_column=None if separator is None else int(now[separator]),
    )
