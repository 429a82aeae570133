"""The boosts of a call: none, one of all utterances, or one of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from arcbeam.ctc.boost._boost import BoostList
from arcbeam.ctc.boost.boost import Boost, compiled_lists
from arcbeam.graph.graph import Graph
from arcbeam.graph.new_words import OpenGraph

Boosts: TypeAlias = Boost | Sequence[Boost | None] | None


def check_boost(boost: object) -> None:
    """TypeError unless it is a `Boost` or None."""
    if boost is not None and not isinstance(boost, Boost):
        raise TypeError(f"boost: expected an arcbeam.Boost, got {type(boost).__name__}")


def boost_of(boosts: Boosts, index: int) -> Boost | None:
    """The boost of an utterance."""
    return boosts if boosts is None or isinstance(boosts, Boost) else boosts[index]


def compiled_for(graph: Graph, boosts: Boosts, threads: int = 1) -> BoostList | list[BoostList | None] | None:
    """The boosts of a call as its engine takes them; new ones are compiled in parallel. Errors as of Boost.compiled."""
    if boosts is None or isinstance(boosts, Boost):
        return None if boosts is None else boosts.compiled(graph)
    if isinstance(boosts, str) or not isinstance(boosts, Sequence):
        hint = "; a BoostingTree is for a TransducerDecoder" if type(boosts).__name__ == "BoostingTree" else ""
        raise TypeError(f"boost: expected an arcbeam.Boost, or a list of them, got {type(boosts).__name__}{hint}")
    for at, boost in enumerate(boosts):
        if boost is not None and not isinstance(boost, Boost):
            raise TypeError(
                f"boost: expected an arcbeam.Boost or None for each utterance, got {type(boost).__name__} for "
                f"utterance {at}"
            )
    return compiled_lists(graph, boosts, threads)


def opened(graph: Graph, boost: Boost | None) -> Graph | OpenGraph:
    """The graph of an utterance, with the new words of its boost if it has any."""
    new_words = None if boost is None or graph.open_slot is None else boost.compiled(graph).new_words
    return graph if new_words is None else OpenGraph(graph, new_words)


def graphs_of(graph: Graph, boosts: Boosts, utterances: int) -> list[Graph | OpenGraph] | None:
    """The graph of each utterance with its new words; None if there are none."""
    if boosts is None or graph.open_slot is None:
        return None
    return [opened(graph, boost_of(boosts, index)) for index in range(utterances)]
