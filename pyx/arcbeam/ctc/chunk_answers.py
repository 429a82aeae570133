"""What chunks of streams are to give beside their best paths, by what their streams were asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arcbeam.ctc._lattices import Lattices
    from arcbeam.ctc.boost import Boost
    from arcbeam.ctc.results import Asked, Results
    from arcbeam.ctc.stream import Stream

NOT_MADE = (
    "the call that decoded this chunk did not come to its answers; the next chunk gives them, and one without frames "
    "will do; those of a sentence that has ended come with decoder.restore(stream.save())"
)


def by_asked(results: Results, lattices: Lattices, streams: Sequence[Stream]) -> Iterator[tuple[Results, list[int]]]:
    """Results without answers, and the places of the chunks that share them.

    They have a lattice, and their streams were asked for the same.
    """
    found: dict[Asked, list[int]] = {}
    for at in lattices.places():
        if (asked := streams[at]._asked) is not None:
            found.setdefault(asked, []).append(at)
    for asked, places in found.items():
        boosts: list[Boost | None] = [None] * len(streams)
        for at in places:
            boosts[at] = streams[at].boost
        yield replace(results, asked=asked, boosts=boosts, before={at: streams[at]._before for at in places}), places


def owed_answers(results: Results, lattices: Lattices, streams: Sequence[Stream]) -> dict[int, Results]:
    """The results of these chunks until their answers are made: whoever looks at those is told that they are not."""
    found: dict[int, Results] = {}
    for of_streams, places in by_asked(results, lattices, streams):
        found |= dict.fromkeys(places, replace(of_streams, answers=RuntimeError(NOT_MADE)))
    return found
