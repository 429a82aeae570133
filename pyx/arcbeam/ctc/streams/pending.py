"""What chunks of streams are to give beside their best paths, by what their streams were asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from arcbeam.ctc.boost.boost import Boost
    from arcbeam.ctc.lattice._lattices import Lattices
    from arcbeam.ctc.results import Asked, Results
    from arcbeam.ctc.streams.stream import Stream

    Group: TypeAlias = tuple[Results, list[int]]  # what chunks share, answers apart; and the places of these chunks

NOT_MADE = (
    "the call that decoded this chunk did not come to its answers; the next chunk gives them, and one without frames "
    "will do; those of a sentence that has ended come with decoder.restore(stream.save())"
)


def by_asked(results: Results, lattices: Lattices, streams: Sequence[Stream]) -> list[Group]:
    """The groups of the chunks that have a lattice and whose streams were asked for the same."""
    found: dict[Asked, list[int]] = {}
    for at in lattices.places():
        if (asked := streams[at]._asked) is not None:
            found.setdefault(asked, []).append(at)
    groups: list[Group] = []
    for asked, places in found.items():
        boosts: list[Boost | None] = [None] * len(streams)
        for at in places:
            boosts[at] = streams[at].boost
        before = {at: streams[at]._before for at in places}
        groups.append((replace(results, asked=asked, boosts=boosts, before=before), places))
    return groups


def owed_answers(groups: Sequence[Group]) -> dict[int, Results]:
    """The results of these chunks until their answers are made: whoever looks at those is told that they are not."""
    found: dict[int, Results] = {}
    for of_streams, places in groups:
        found |= dict.fromkeys(places, replace(of_streams, answers=RuntimeError(NOT_MADE)))
    return found
