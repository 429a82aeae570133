"""The warning about phrases whose scores exceed the beam, so that they remove all other paths from the search."""

from __future__ import annotations

from weakref import WeakSet

from arcbeam.core.show import shortened
from arcbeam.core.warn import warn
from arcbeam.ctc.boost.boost import Boost
from arcbeam.ctc.boost.boosts import Boosts


class BeamCheck:
    """Warns once of each list that has such phrases, for a decoder with this beam."""

    def __init__(self, beam: float) -> None:
        self._beam = beam
        self._told: WeakSet[Boost] = WeakSet()

    def __call__(self, boosts: Boosts) -> None:
        """Looks at the lists of a call, which are known to be lists."""
        for boost in (boosts,) if boosts is None or isinstance(boosts, Boost) else boosts:
            if boost is not None and boost.largest > self._beam and boost not in self._told:
                self._told.add(boost)
                self._warn(boost)

    def _warn(self, boost: Boost) -> None:
        above = [phrase for phrase, score in boost.phrases.items() if score > self._beam]
        more = f" and {len(above) - 1:,} more" if len(above) > 1 else ""
        warn(
            f"boost: expected scores up to the beam, {self._beam:g}, got {boost.largest:g} at most, for "
            f"{shortened(max(above, key=boost.phrases.__getitem__))}{more}: where such a phrase begins to match, all "
            f"other paths leave the search; half the beam, {self._beam / 2:g}, is a good score"
        )
