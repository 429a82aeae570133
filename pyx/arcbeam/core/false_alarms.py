"""Scores of phrases from speech without them: the largest that seldom put a phrase where it was not spoken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from arcbeam.core.checks import as_float, check_real

STEPS = 8  # to a score of 1


def check_share(false_alarms: Any) -> float:
    """The largest share of utterances with a false alarm, checked."""
    share = as_float("false_alarms", false_alarms, "from 0 to below 1")
    if not 0.0 <= share < 1.0:
        raise ValueError(f"false_alarms: expected a share of the utterances, from 0 to below 1, got {false_alarms!r}")
    return share


def steps_to(largest: Any, limit: float) -> int:
    """The number of steps to the largest score, which is checked."""
    check_real("largest", largest, f"from {1 / STEPS} to {limit:g}", above=1 / STEPS, inclusive=True)
    if largest > limit:
        raise ValueError(f"largest: expected a number from {1 / STEPS} to {limit:g}, got {largest!r}")
    return int(largest * STEPS)


def best_step(
    steps: int, share: float, occurrences: Callable[[int], list[Counter[Any]]], *, caller: str, speech: str
) -> int:
    """The largest step with which at most this share of the utterances has a false alarm.

    `occurrences` counts each phrase in each utterance's hypothesis; step 0 is without phrases. An utterance has a false
    alarm where a phrase occurs more often than then. `caller` and `speech` are for messages.
    """
    before = occurrences(0)
    if not before:
        raise ValueError(f"{speech}: expected at least one utterance, got none")

    def shared_by(step: int) -> float:
        """The share of the utterances that have a false alarm."""
        return sum(bool(now - then) for now, then in zip(occurrences(step), before, strict=True)) / len(before)

    best = _largest(steps, lambda step: shared_by(step) <= share)
    if best == 0:
        raise ValueError(
            f"{caller}: with scores of {1 / STEPS} at most the share of utterances with a false alarm is "
            f"{shared_by(1):.3g}, expected at most {share:g}; give more speech, leave out phrases that sound like what "
            "is said in it, or accept more false alarms"
        )
    return best


def _largest(steps: int, is_good: Callable[[int], bool]) -> int:
    """The largest good step, by halving; 0 is good, and steps are taken to be worse the larger they are."""
    if is_good(steps):
        return steps
    good, bad = 0, steps
    while bad - good > 1:
        middle = (good + bad) // 2
        if is_good(middle):
            good = middle
        else:
            bad = middle
    return good
