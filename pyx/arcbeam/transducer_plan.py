"""How transducers are laid out on a device: every figure that measurements may change, in one place.

None has been measured yet; they follow from the estimate in ``docs/transducers.md``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class LoopShape:
    """A kernel of the loop over labels, and its launch of one block a multiprocessor.

    Attributes
    ----------
    kernel : str
        ``"few"``: weights stay in shared memory; ``"many"``: they are streamed.
    threads : int
        Of a block.
    tests : int
        Frames that are tested in a round by all utterances together, at least one each.
    first_window, widest_window : int
        Frames that an utterance tests at a time: after a label, and at most after blanks.
    """

    kernel: str
    threads: int
    tests: int
    first_window: int
    widest_window: int


FEW = LoopShape("few", threads=512, tests=16, first_window=4, widest_window=16)
MANY = LoopShape("many", threads=256, tests=256, first_window=4, widest_window=8)
CROWD = LoopShape("many", threads=256, tests=512, first_window=2, widest_window=4)
FEW_UTTERANCES = 16
"""Up to so many, weights that fit the shared memory stay there."""
CROWD_UTTERANCES = 192
"""From so many on, a test costs more than the round that it saves."""
MOST_LANES = 1024
"""Utterances that are decoded together."""
MOST_FRAMES = 1 << 20
"""Frames of all of them, unless one alone has more: their projections lie in memory."""
PROJECT_THREADS = 256
PATIENCE_CYCLES = 1 << 34
"""Of a block at a barrier, until it gives up: about ten seconds."""


def loop_shapes(utterances: int) -> tuple[LoopShape, ...]:
    """What to try, in this order."""
    streamed = CROWD if utterances >= CROWD_UTTERANCES else MANY
    return (FEW, streamed) if utterances <= FEW_UTTERANCES else (streamed,)


def blocks(multiprocessors: int) -> int:
    """Of a launch; they wait for each other, so all have to run at the same time."""
    return multiprocessors


def first_room(frames: int) -> int:
    """Tokens of an utterance that there is room for at first."""
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
