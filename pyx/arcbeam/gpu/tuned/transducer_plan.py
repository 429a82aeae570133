"""How transducers are laid out on a device: every figure that measurements may change, in one place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

KERNELS = ("kept", "many")
HOST_THREADS = 16


@dataclass(frozen=True)
class LoopShape:
    """A kernel of the loop over labels, and its launch of one block a multiprocessor."""

    kernel: str  # "kept": weights are in shared memory; "many": they are streamed
    threads: int  # of a block
    tests: int  # frames tested in a round by all utterances together, at least one each
    first_window: int  # frames that an utterance tests at a time after a label
    widest_window: int  # the same at most after blanks
    teams: int = 1  # of blocks, in "kept": each has all weights, and a share of the utterances
    joins_alone: bool = False  # in "kept": each block computes the joint's hidden layers of all tests itself


THREADS = {"kept": 512, "many": 256}
MOST_TESTS = {"kept": 1024, "many": 1024}
JOINS_ALONE = 8
"""Tests of a round up to which every block computes all hidden layers; then each block reads all their inputs."""
ANY = 1 << 32
PLAN: dict[tuple[str, bool], tuple[tuple[int, str, int, int, int], ...]] = {
    ("float32", False): ((2, "kept", 8, 16, 2), (16, "kept", 8, 16, 1), (256, "kept", 4, 8, 2), (ANY, "many", 4, 8, 1)),
    ("float32", True): (
        (1, "kept", 2, 4, 2),
        (16, "kept", 4, 8, 2),
        (48, "kept", 2, 4, 2),
        (256, "kept", 1, 2, 2),
        (ANY, "many", 1, 2, 1),
    ),
    ("bfloat16", False): ((16, "many", 8, 16, 1), (256, "kept", 8, 16, 3), (ANY, "kept", 4, 8, 3)),
    ("bfloat16", True): (
        (1, "kept", 4, 8, 2),
        (16, "many", 4, 8, 1),
        (64, "many", 2, 4, 1),
        (256, "kept", 1, 2, 2),
        (ANY, "kept", 1, 2, 3),
    ),
}
"""Rows by precision, and by whether there are durations (which skip most blanks). A row has the number of utterances
up to which it holds, the kernel, the frames that an utterance tests after a label, those that it tests at most, and the
most teams; there are as many teams as shared memory has room for. The figures were measured on an H200."""
BEAM_TEAMS = {"float32": 2, "bfloat16": 3}
"""The most teams of beam search, whose weights are kept where they fit: faster than streaming at any batch."""
BEAM_PLAN: dict[bool, tuple[tuple[int, int, int], ...]] = {
    False: ((4, 8, 6), (64, 8, 3), (256, 4, 2), (ANY, 1, 1)),
    True: ((ANY, 1, 1),),
}
"""Rows by whether there are durations: the number of utterances up to which a row holds, the tests of a round for each
hypothesis that may live, and the frames that a hypothesis is tested on at most; it is tested on fewer where so many are
live that a round has no room. Measured on an H200; with durations, few of the frames that are tested ahead are
reached."""
MOST_LANES = 1024
"""The most utterances that are decoded together."""
MOST_FRAMES = 1 << 20
"""The most frames that they have together, unless one alone has more: their projections take memory."""
PROJECT_THREADS = 256
PROJECT_BLOCKS = {"float32": 1, "bfloat16": 2}
"""Blocks per multiprocessor: as many as get registers, because most of the time goes into waiting for loads."""
STAGED_GROUPS = 256
"""Groups of eight frames from which on, in bfloat16, blocks project 64 frames together; with fewer groups, few blocks
would have work."""
PATIENCE_CYCLES = 1 << 34
"""Clock cycles after which a block at a barrier stops waiting: about ten seconds."""


def loop_shapes(utterances: int, precision: str, has_durations: bool) -> tuple[LoopShape, ...]:
    """The shapes to try, in this order; the last one needs no room for weights."""
    rows = PLAN[precision, has_durations]
    kernel, first, widest, most_teams = next(row[1:] for row in rows if utterances <= row[0])
    chosen = tuple(loop_shape(kernel, utterances, first, widest, teams) for teams in range(most_teams, 0, -1))
    return chosen if kernel == "many" else (*chosen, loop_shape("many", utterances, first, widest))


@lru_cache(maxsize=1024)  # a decode of one utterance takes less than a millisecond
def loop_shape(kernel: str, utterances: int, first_window: int, widest_window: int, teams: int = 1) -> LoopShape:
    """The shape with as many tests as the utterances need after labels."""
    tests = min(MOST_TESTS[kernel], utterances * first_window)
    joins_alone = kernel == "kept" and tests <= JOINS_ALONE
    return LoopShape(kernel, THREADS[kernel], tests, first_window, widest_window, teams, joins_alone)


def beam_shapes(utterances: int, hypotheses: int, precision: str, has_durations: bool) -> tuple[LoopShape, ...]:
    """The shapes of beam search to try, in this order; the last one needs no room for weights."""
    each, widest = next(row[1:] for row in BEAM_PLAN[has_durations] if utterances <= row[0])
    tests = utterances * hypotheses * each
    kept = [
        LoopShape("kept", THREADS["kept"], tests, widest, widest, teams, joins_alone=tests <= JOINS_ALONE)
        for teams in range(BEAM_TEAMS[precision], 0, -1)
    ]
    return (*kept, LoopShape("many", THREADS["many"], tests, widest, widest))


def beam_rooms(frames: int, hypotheses: int) -> tuple[int, int, int, int]:
    """What there is room for at first in an utterance whose frames are so many.

    Hypotheses in a bucket, histories (a power of two), labels, predictions.
    """
    nodes = 1 << (8 * frames + 64 * hypotheses).bit_length()
    return 8 * hypotheses, nodes, 2 * frames + 16 * hypotheses, 4 * hypotheses


def lattice_rooms(frames: int, hypotheses: int) -> tuple[int, int]:
    """What there is room for at first in the lattice of an utterance whose frames are so many: tokens, arcs."""
    return 8 * frames + 32 * hypotheses, 16 * frames + 64 * hypotheses


def host_threads(cores: int) -> int:
    """Threads of the host for states of streams and lattices."""
    return min(cores, HOST_THREADS)


def blocks(multiprocessors: int) -> int:
    """The number of blocks of a launch; they wait for each other, so all have to run at the same time."""
    return multiprocessors


def first_room(frames: int) -> int:
    """The number of tokens of an utterance for which there is room at first."""
    return frames // 2 + 16


def groups(frames: np.ndarray, lanes: int) -> list[tuple[int, int]]:
    """Cuts utterances, the longest first, into groups ``[first, last)`` that are decoded together."""
    found, first, ends = [], 0, np.cumsum(frames)
    while first < len(frames):
        before = int(ends[first - 1]) if first else 0
        within = int(np.searchsorted(ends, before + MOST_FRAMES, side="right"))
        last = min(first + lanes, max(within, first + 1))
        found.append((first, last))
        first = last
    return found
