"""Entries of riva's that are not among ours: each reason, with lists and lattices that are made up."""

from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.tasks import riva_answers as task

SYMBOLS = {1: "one", 2: "two", 3: "three"}


def hypothesis(score, *lists, in_lattice=(), later=()):
    entries = [SimpleNamespace(word_ids=np.array(words)) for words in lists]
    seen = entries + [SimpleNamespace(word_ids=np.array(words)) for words in later]

    def oracle_wer(texts):
        return SimpleNamespace(errors=0 if texts in [[SYMBOLS[word] for word in words] for words in in_lattice] else 1)

    lattice = SimpleNamespace(nbest=lambda count: seen[:count], word_symbols=SYMBOLS, oracle_wer=oracle_wer)
    return SimpleNamespace(score=score, word_ids=np.array(lists[0]), nbest=entries, lattice=lattice)


def riva(*entries):
    return [SimpleNamespace(words=words, score=score) for words, score in entries]


def test_reasons():
    ours = [hypothesis(-5.0, [1, 2], [1], later=[[2]], in_lattice=[[3]])] * 2
    theirs = [
        riva(([1, 0, 2], 5.0), ([1], 6.0), ([2], 7.0), ([3], 8.0), ([1, 1, 2], 8.5), ([2, 3], 9.0)),
        riva(([2, 3], 6.0), ([3, 1], 6.5)),
    ]
    found = task.missing_entries(ours, theirs)
    reasons = [task.LATER, task.IN_LATTICE, task.REPEATED, task.NOT_KEPT, task.LOST, task.LOST]
    assert [one.why for one in found] == reasons
    assert [(one.utterance, one.place) for one in found] == [(0, 2), (0, 3), (0, 4), (0, 5), (1, 0), (1, 1)]
    assert task.NOT_KEPT in str(found[3]) and "two" in str(found[3])


def test_best_paths_that_are_lost():
    """What all of riva's scores have more than ours is taken off, and what rounding explains does not count."""
    ours = [hypothesis(-5.0, [1, 2]), hypothesis(-7.0, [1]), hypothesis(-9.0, [2]), hypothesis(-9.0, [3])]
    theirs = [riva(([1, 2], 6.0)), riva(([1], 8.02)), riva(([1], 12.0)), []]
    assert task.lost_best_paths(ours, theirs) == {2: pytest.approx(12.0 - 9.0 - 1.01)}
    assert task.lost_best_paths([ours[2]], [riva(([1], 9.0))]) == {}


def test_confidences_are_compared_word_by_word():
    def mbr(*words):
        return SimpleNamespace(mbr=SimpleNamespace(words=[SimpleNamespace(word=w, confidence=c) for w, c in words]))

    ours = [mbr(("one", 0.5), ("two", 1.0), ("three", 0.25)), mbr(), mbr(("two", 0.75))]
    theirs = [[("one", 0, 1, 0.75), ("three", 1, 2, 0.25)], [("one", 0, 1, 0.125)], [("two", 0, 1, 0.5)]]
    assert task.confidences(ours, theirs) == (2, [0.25, 1.0, 0.0, 0.125, 0.25])
