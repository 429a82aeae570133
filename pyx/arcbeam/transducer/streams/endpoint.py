"""Where the sentences of a transducer's stream end: rules over the frames that have followed its last token.

Every 0.2 s of a sentence its rules are checked, in their order; the first one that holds ends the sentence there. A
greedy search takes no token back, and no token depends on a later frame. So what a check would have found follows from
the tokens of a chunk that has been decoded as a whole: those on frames before it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from arcbeam.streams.endpoints import Endpoint, endpoint_interval, frames_of


class Rule(NamedTuple):
    """A rule with frames in place of seconds."""

    must_contain_nonsilence: bool
    min_trailing_silence: int
    min_utterance_length: int


class End(NamedTuple):
    """The end of a sentence.

    Attributes
    ----------
    frames : int
        Of the sentence.
    fired : int
        The number of the rule, from 1.
    """

    frames: int
    fired: int


class TransducerRules(NamedTuple):
    """The rules of an `Endpoint` for streams of transducers.

    Attributes
    ----------
    rules : tuple of Rule
    every : int
        Frames between two checks.
    """

    rules: tuple[Rule, ...]
    every: int

    @classmethod
    def of(cls, endpoint: Endpoint, frame_shift: float | None) -> TransducerRules:
        """The rules in frames of `frame_shift` seconds."""
        for name, rule in endpoint.rules.items():
            if not math.isinf(rule.max_relative_cost):
                raise ValueError(
                    f"endpoint: expected rules without max_relative_cost, because a greedy search has no other path to "
                    f"compare with, got {rule.max_relative_cost:g} in {name!r}; give arcbeam.Endpoint.sherpa(), or "
                    "rules of silence and length"
                )
        if frame_shift is None:
            raise ValueError(
                "endpoint: its rules need the seconds of a frame; make the decoder with them, as in "
                "arcbeam.TransducerDecoder(..., frame_shift=0.08)"
            )
        rules = (
            Rule(
                rule.must_contain_nonsilence,
                frames_of(rule.min_trailing_silence, frame_shift),
                frames_of(rule.min_utterance_length, frame_shift),
            )
            for rule in endpoint.rules.values()
        )
        return cls(tuple(rules), endpoint_interval(frame_shift))

    def first_end(
        self, tokens_on: npt.NDArray[np.int64], durations: npt.NDArray[np.int32] | None, before: int, frames: int
    ) -> End | None:
        """The first check at which a rule holds, of those after `before` frames of the sentence and up to `frames`.

        Parameters
        ----------
        tokens_on : int64[n]
            The frames of the sentence that its tokens were written on.
        durations : int32[n] or None
            None for an RNN-T, whose tokens last one frame.
        """
        for look in self._looks(before, frames):
            count = int(np.searchsorted(tokens_on, look))
            silence = look
            if count:
                lasts = 1 if durations is None else max(1, int(durations[count - 1]))
                silence = max(0, look - int(tokens_on[count - 1]) - lasts)
            for number, rule in enumerate(self.rules, 1):
                if (
                    (count > 0 or not rule.must_contain_nonsilence)
                    and silence >= rule.min_trailing_silence
                    and look >= rule.min_utterance_length
                ):
                    return End(look, number)
        return None

    def _looks(self, before: int, frames: int) -> Iterator[int]:
        yield from range((before // self.every + 1) * self.every, frames + 1, self.every)
