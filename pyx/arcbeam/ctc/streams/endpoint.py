"""The rules that end a sentence, in the form that the engines of CTC decoders take."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from arcbeam.graph.inputs import separator_column
from arcbeam.graph.spelling import separator_of
from arcbeam.streams.endpoints import Endpoint, endpoint_interval, frames_of

if TYPE_CHECKING:
    from arcbeam.graph.graph import Graph


class FrameRule(NamedTuple):
    """A rule with frames in place of seconds."""

    must_contain_nonsilence: int
    min_trailing_silence: int
    min_utterance_length: int
    max_relative_cost: float


class EndpointRules(NamedTuple):
    """An `Endpoint` in the form that engines take; see ``cuda/shared/endpoint.hpp``."""

    rules: tuple[FrameRule, ...]
    every: int
    blank_column: int
    separator_column: int

    @classmethod
    def of(cls, endpoint: Endpoint, graph: Graph, frame_shift: float | None) -> EndpointRules:
        """The rules in frames; ValueError if the seconds of a frame, or the graph's blank, are not known."""
        if frame_shift is None:
            raise ValueError(
                "endpoint: its rules need the seconds of a frame; make the decoder with them, as in "
                "arcbeam.CtcDecoder(graph, frame_shift=0.04)"
            )
        if graph.blank is None:
            raise ValueError("endpoint: the graph has no blank; give blank= when it is loaded")
        rules = tuple(
            FrameRule(
                int(rule.must_contain_nonsilence),
                frames_of(rule.min_trailing_silence, frame_shift),
                frames_of(rule.min_utterance_length, frame_shift),
                float(rule.max_relative_cost),
            )
            for rule in endpoint.rules.values()
        )
        column = graph.separator_column
        if column is None:
            column = separator_column(graph.tokens, separator_of(graph))
        return cls(rules, endpoint_interval(frame_shift), graph.blank, -1 if column is None else column)
