"""Sizes in bytes, as people write them."""

from __future__ import annotations

import numbers
import re
from fractions import Fraction

UNITS = {"": 1, "b": 1} | {
    f"{prefix}{ending}": base**power
    for power, prefix in enumerate("kmgt", 1)
    for ending, base in (("b", 1000), ("ib", 1024))
}
MOST_BYTES = 2**62
_TEXT = re.compile(r"\s*([0-9]{1,20}(?:\.[0-9]{1,20})?)\s*([A-Za-z]*)\s*", re.ASCII)


def as_bytes(name: str, value: object, *, at_least: int = 0) -> int:
    """A size as bytes: a whole number, or a text such as "2GiB" or "1.5 GB", rounded down; TypeError, ValueError."""
    rule = f"{name}: expected a number of bytes, at least {at_least}, or a size such as '2GiB' or '500MB'"
    if isinstance(value, str):
        found = _TEXT.fullmatch(value)
        unit = found and UNITS.get(found[2].lower())
        if not found or not unit:
            raise ValueError(f"{rule}, got {value!r}")
        count = int(Fraction(found[1]) * unit)
    elif isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{rule}, got {type(value).__name__}")
    else:
        count = int(value)
    if not at_least <= count < MOST_BYTES:
        shown = repr(value) if count.bit_length() <= 128 else f"an integer of {count.bit_length():,} bits"
        raise ValueError(f"{rule}, got {shown}")
    return count
