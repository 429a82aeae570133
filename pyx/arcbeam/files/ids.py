"""A set of many ids in little memory: 64 bits of each, so two ids are the same with a probability of 1 in 2^64."""

from array import array

FIRST = 1 << 10  # places at the beginning: a power of 2, as always
MASK = (1 << 64) - 1


class Ids:
    """Whether an id was there before; about 16 bytes an id, where a set of Python takes 150."""

    def __init__(self) -> None:
        self._places = array("Q", bytes(8 * FIRST))  # 0 is an empty one
        self._count = 0

    def add(self, name: str) -> bool:
        """Adds an id; whether it is new, unless its 64 bits are those of another."""
        if not self._put(_bits(name)):
            return False
        self._count += 1
        if 2 * self._count > len(self._places):
            old, self._places = self._places, array("Q", bytes(16 * len(self._places)))
            for one in old:
                if one:
                    self._put(one)
        return True

    def __contains__(self, name: str) -> bool:
        value, places = _bits(name), self._places
        at = value & (len(places) - 1)
        while places[at] not in (0, value):
            at = (at + 1) & (len(places) - 1)
        return places[at] == value

    def __len__(self) -> int:
        return self._count

    def _put(self, value: int) -> bool:
        """Puts a value into the first empty place from its own on; whether it was not there."""
        places = self._places
        last = len(places) - 1
        at = value & last
        while found := places[at]:
            if found == value:
                return False
            at = (at + 1) & last
        places[at] = value
        return True


def _bits(name: str) -> int:
    """The 64 bits of an id, which are not all 0."""
    return (hash(name) & MASK) or 1
