"""Where the sentences of a transducer's stream end: rules over the frames that have followed the last token.

Rules are checked every 0.2 s, in order. Of greedy search all checks of a chunk follow from its tokens, which are final.
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
    """The end of a sentence: its frames, and the number of the rule, from 1."""

    frames: int
    fired: int


class TransducerRules(NamedTuple):
    """The rules of an `Endpoint` for streams of transducers, and the frames between two checks."""

    rules: tuple[Rule, ...]
    every: int

    @classmethod
    def of(cls, endpoint: Endpoint, frame_shift: float | None) -> TransducerRules:
        """The rules in frames of `frame_shift` seconds."""
        for name, rule in endpoint.rules.items():
            if not math.isinf(rule.max_relative_cost):
                raise ValueError(
                    f"endpoint: expected rules without max_relative_cost, because a transducer has no final states to "
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
        """The first check after `before` frames and up to `frames` at which a rule holds; RNN-T: no durations."""
        for checked_at in self._checks(before, frames):
            count = int(np.searchsorted(tokens_on, checked_at))
            silence = checked_at
            if count:
                lasts = 1 if durations is None else max(1, int(durations[count - 1]))
                silence = max(0, checked_at - int(tokens_on[count - 1]) - lasts)
            for number, rule in enumerate(self.rules, 1):
                if (
                    (count > 0 or not rule.must_contain_nonsilence)
                    and silence >= rule.min_trailing_silence
                    and checked_at >= rule.min_utterance_length
                ):
                    return End(checked_at, number)
        return None

    def _checks(self, before: int, frames: int) -> Iterator[int]:
        yield from range((before // self.every + 1) * self.every, frames + 1, self.every)
