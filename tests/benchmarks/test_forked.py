"""Decoders of one core, shared among processes: the same words, in the order of the utterances."""

import os

import numpy as np
import pytest

from benchmarks.adapters import Answer
from benchmarks.tasks import forked


class Parrot:
    name, device, settings = "parrot", "cpu", ""

    def prepare(self, utterances):
        return utterances

    def decode(self, prepared):
        if any(len(u) == 13 for u in prepared):
            raise ValueError("thirteen frames")
        if any(len(u) == 17 for u in prepared):
            os._exit(1)
        return [str(len(u)) for u in prepared]

    def answers(self, decoded):
        return [Answer(text, 0.0, True) for text in decoded]


def utterances(*lengths):
    return [np.zeros((n, 2), np.float32) for n in lengths]


@pytest.mark.parametrize("processes", [1, 2, 3, 16])
def test_words_come_in_order(processes):
    some = utterances(5, 3, 8, 1, 2)
    assert forked.texts_of_processes(Parrot(), some, processes) == forked.texts(Parrot(), some) == list("53812")
    assert forked.texts_of_processes(Parrot(), [], processes) == []


def test_processes_that_fail():
    with pytest.raises(RuntimeError, match="ValueError: thirteen frames"):
        forked.texts_of_processes(Parrot(), utterances(5, 13, 8), 2)
    with pytest.raises(RuntimeError, match="a process that decoded has died"):
        forked.texts_of_processes(Parrot(), utterances(5, 8, 17), 3)
