"""What an experiment makes at random, or takes that was, for the header of its results: seeds, digests of weights."""

import functools
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ParamSpec, TypeVar

Noted = int | list[int] | str  # a seed, several of them, or a digest

P, T = ParamSpec("P"), TypeVar("T")
_seeds: dict[str, set[int]] = {}
_digests: dict[str, str] = {}


def used(what: str, seed: int) -> int:
    """Notes that ``what`` is made with a seed, and returns the seed."""
    _seeds.setdefault(what, set()).add(seed)
    return seed


def weights(path: Path) -> Path:
    """Notes the digest of a file of trained weights, which no seed makes again, and returns its path."""
    _digests[f"{path.parent.name}/{path.name}"] = f"sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}"
    return path


def taken() -> dict[str, Noted]:
    """What was noted since the last call."""
    noted: dict[str, Noted] = {what: min(each) if len(each) == 1 else sorted(each) for what, each in _seeds.items()}
    noted |= _digests
    _seeds.clear()
    _digests.clear()
    return noted


def again(noted: Mapping[str, Noted]) -> None:
    """Notes what was taken: by another process, or when something was made that is kept."""
    for what, value in noted.items():
        if isinstance(value, str):
            _digests[what] = value
        else:
            for seed in [value] if isinstance(value, int) else value:
                used(what, seed)


def kept(make: Callable[P, T]) -> Callable[P, T]:
    """As `functools.cache`, but that who gets what is kept has its seeds noted, too."""

    @functools.cache
    def made(*arguments: P.args, **named: P.kwargs) -> tuple[T, dict[str, Noted]]:
        before = taken()
        value, noted = make(*arguments, **named), taken()
        again(before)
        return value, noted

    @functools.wraps(make)
    def get(*arguments: P.args, **named: P.kwargs) -> T:
        value, noted = made(*arguments, **named)
        again(noted)
        return value

    return get
