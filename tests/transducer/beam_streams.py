"""Chunks of several streams with a beam, decoded by the engines of two decoders from the same states."""

import random

import numpy as np

from arcbeam.arrays.batches import as_inputs
from arcbeam.transducer.beam._state import BeamState
from arcbeam.transducer.fusion import fusions_of, trees_of


class Streams:
    """The engine of a decoder, which takes a chunk of each of these streams, and their states."""

    def __init__(self, decoder, count, trees=None):
        self.search = decoder._search
        self.trees = trees_of(trees, count, self.search.tokens, self.search.options.blank_id)
        self.fusions, _ = fusions_of(self.trees, self.search.ngram_lm, [None] * count)
        self.begun = [self.search.start(tree, 0) for tree in self.trees]

    def decode(self, chunks, states, members):
        """What is left to the next chunk of each of these members; what there is to compare; and what is wrong."""
        inputs = as_inputs(chunks, None, self.search.spec)
        fusions = None if self.fusions is None else [self.fusions[i] for i in members]
        found, bad = self.search.engine.decode(inputs.table, states, inputs.on_host, fusions)
        wrong = {i for i, *_ in bad}
        lists = [None if i in wrong else lists_bytes(*take(place)) for i, (take, place, _) in enumerate(found)]
        left = [one[2] for one in found]
        return [state for state, *_ in left], [(lists, [rest for _, *rest in left], [*map(repr, bad)])]


def lists_bytes(entries):
    return [([array.tobytes() for array in labels], *rest) for labels, *rest in entries]


def state_bytes(state):
    return state.frames, state.numbers(), {name: array.tobytes() for name, array in state.arrays().items()}


def saved(state):
    """The state as it comes back from a file."""
    return BeamState.of_arrays(state.frames, *state.numbers(), state.arrays())


def check_chunks(twin, other, frames, seed, sizes=(0, 1, 2, 5)):
    """Both decode streams in chunks, each time in another batch: all bytes are the same, those of states, too.

    Both go on from the states that either has left. Gives the states at the end.
    """
    draw = random.Random(seed)
    ends, states = [0] * len(frames), list(twin.begun)
    while any(end < len(rows) for end, rows in zip(ends, frames, strict=True)):
        members = [i for i in range(len(frames)) if draw.random() < 0.8] or [0]
        draw.shuffle(members)
        chunks = []
        for i in members:
            first, ends[i] = ends[i], min(len(frames[i]), ends[i] + draw.choice(sizes))
            chunks.append(frames[i][first : ends[i]])
        before = [states[i] for i in members]
        wanted, said = twin.decode(chunks, before, members)
        found, told = other.decode(chunks, before, members)
        assert told == said
        for i, one, by_twin in zip(members, found, wanted, strict=True):
            assert_same_state(one, by_twin, f"stream {i} after {ends[i]} frames")
            states[i] = saved(one) if draw.random() < 0.5 else draw.choice([one, by_twin])
    return states


def assert_same_state(one, other, where):
    """All bytes are the same; else the first array that differs is named, with its first element that does."""
    for name, array in one.arrays().items():
        wanted = other.arrays()[name]
        assert array.shape == wanted.shape, f"{where}: {name} has shape {array.shape}, not {wanted.shape}"
        if array.tobytes() != wanted.tobytes():
            at = next(i for i in np.ndindex(array.shape) if array[i].tobytes() != wanted[i].tobytes())
            raise AssertionError(f"{where}: {name}{list(at)} is {array[at]}, not {wanted[at]}")
    assert state_bytes(one) == state_bytes(other), where


def joined_chunks(decoder, frames, size):
    """The states after all chunks of so many frames, of streams that are decoded together."""
    streams = Streams(decoder, len(frames))
    states, members = streams.begun, range(len(frames))
    for first in range(0, max(map(len, frames)), size):
        states, _ = streams.decode([rows[first : first + size] for rows in frames], states, members)
    return states
