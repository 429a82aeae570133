"""The seeds of what an experiment made at random, for the header of its results."""

_noted: dict[str, int] = {}


def used(what: str, seed: int) -> int:
    """Notes that ``what`` is made with a seed, and returns the seed."""
    _noted[what] = seed
    return seed


def taken() -> dict[str, int]:
    """What was noted since the last call."""
    noted = dict(_noted)
    _noted.clear()
    return noted
