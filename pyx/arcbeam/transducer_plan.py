"""How transducers are laid out on a device: every figure that measurements may change, in one place.

None has been measured yet; they follow from the estimate in ``docs/transducers.md``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

KERNELS = ("few", "kept", "many")


@dataclass(frozen=True)
class LoopShape:
    """A kernel of the loop over labels, and its launch of one block a multiprocessor.

    Attributes
    ----------
    kernel : str
        ``"few"``: weights are kept in shared memory, and what they are multiplied by is copied there; ``"kept"``: the
        weights alone; ``"many"``: they are streamed.
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


FEW = LoopShape("few", threads=512, tests=32, first_window=8, widest_window=16)
MANY = LoopShape("many", threads=256, tests=256, first_window=4, widest_window=8)
CROWD = LoopShape("many", threads=256, tests=512, first_window=2, widest_window=4)
FEW_UTTERANCES = 16
"""Up to so many, weights that fit the shared memory stay there."""
CROWD_UTTERANCES = 192
"""From so many on, a test costs more than the round that it saves."""

# bfloat16: 16 tests are one product, so they cost as much as one.
FEW_BFLOAT16 = LoopShape("few", threads=512, tests=32, first_window=8, widest_window=16)
KEPT_BFLOAT16 = LoopShape("kept", threads=512, tests=256, first_window=4, widest_window=8)
CROWD_BFLOAT16 = LoopShape("kept", threads=512, tests=512, first_window=2, widest_window=4)
MANY_BFLOAT16 = LoopShape("many", threads=256, tests=512, first_window=4, widest_window=8)
FEW_UTTERANCES_BFLOAT16 = 8
"""Up to so many, the joint network's hidden layers are computed by every block for itself."""
MOST_LANES = 1024
"""Utterances that are decoded together."""
MOST_FRAMES = 1 << 20
"""Frames of all of them, unless one alone has more: their projections lie in memory."""
PROJECT_THREADS = 256
PATIENCE_CYCLES = 1 << 34
"""Of a block at a barrier, until it gives up: about ten seconds."""


def loop_shapes(utterances: int, precision: str, has_durations: bool) -> tuple[LoopShape, ...]:
    """What to try, in this order. Durations pass over most blanks: a TDT tests half as many frames at a time."""
    few: tuple[LoopShape, ...]
    others: tuple[LoopShape, ...]
    if precision == "bfloat16":
        few = (FEW_BFLOAT16,) if utterances <= FEW_UTTERANCES_BFLOAT16 else ()
        others = (CROWD_BFLOAT16 if utterances >= CROWD_UTTERANCES else KEPT_BFLOAT16, MANY_BFLOAT16)
    else:
        few = (FEW,) if utterances <= FEW_UTTERANCES else ()
        others = (CROWD if utterances >= CROWD_UTTERANCES else MANY,)
    return (*few, *(halved(shape) if has_durations else shape for shape in others))


def halved(shape: LoopShape) -> LoopShape:
    """With half as many tests for each utterance."""
    first, widest = shape.first_window // 2, shape.widest_window // 2
    return replace(shape, tests=shape.tests // 2, first_window=first, widest_window=widest)


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
