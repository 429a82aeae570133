"""Checks of arguments: an error says what was expected and what was got."""

from __future__ import annotations

import dataclasses
import math
import numbers
import os
import sys
from collections.abc import Iterable, KeysView, Mapping, Set
from typing import Any

from arcbeam.core.show import shortened

# The engines compute in float32. There a factor beyond the largest number is infinite, and a factor below the smallest
# is 0: infinity times a log-prob of 0 is NaN, and so is 0 times -inf.
SMALLEST, LARGEST = 1.1754943508222875e-38, 3.4028234663852886e38
LARGEST_FACTOR = 1e30  # on log probabilities, whose products have to be finite


def as_float(name: str, value: object, rule: str) -> float:
    """The value as a float: TypeError if it is not a number, ValueError if it is too large."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name}: expected a number {rule}, got {type(value).__name__}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name}: expected a number {rule}, got {shown(value)}") from None


def shown(value: object) -> str:
    """A value as messages show it; for an integer with hundreds of digits, its size."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length():,} bits"
    return repr(value)


def is_number(text: str) -> bool:
    """Whether a text is that of a number, as float() reads it."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def check_real(
    name: str, value: object, rule: str, *, above: float, inclusive: bool = False, infinite: bool = False
) -> None:
    """Raises TypeError or ValueError unless it is a number above the bound, or equal to it if `inclusive`."""
    number = as_float(name, value, rule)
    low = number >= above if inclusive else number > above
    if not low or (math.isinf(number) and not infinite):  # NaN compares false
        raise ValueError(f"{name}: expected a number {rule}, got {value!r}")


def check_float32(name: str, value: float, smallest: float = 0.0, largest: float = LARGEST) -> None:
    """Raises ValueError if float32 arithmetic would make the number, or a product with it, 0 or infinite."""
    if not smallest <= abs(float(value)) <= largest:
        span = f"{smallest:.2g} to {largest:.2g}"
        raise ValueError(f"{name}: expected a number within the range of float32, {span}, got {value!r}")


def check_text(name: str, text: str) -> None:
    """Raises ValueError if a str has half of a surrogate pair, which is no character and cannot be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"{name}: expected text, got {shortened(text)}, which has half of a surrogate pair; decode it from its "
            "bytes anew"
        ) from None


def as_texts(name: str, given: object, place: str) -> tuple[str, ...]:
    """Texts whose order says what they stand for, which is a `place`; TypeError or ValueError for anything else."""
    has_order = not isinstance(given, Mapping | Set) or isinstance(given, KeysView)
    if not has_order or not isinstance(given, Iterable):
        article = "an" if place[0] in "aeiou" else "a"
        raise TypeError(f"{name}: expected a sequence of str, {article} {place} each, got {type(given).__name__}")
    texts = tuple(given)
    for at, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"{name}: expected a sequence of str, got {type(text).__name__} for {place} {at}")
        check_text(name, text)
    return texts


def check_path(name: str, value: object, expected: str) -> None:
    """Raises TypeError unless it may be a path; `expected` names all that may be given."""
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise TypeError(f"{name}: expected {expected}, got {type(value).__name__}")


def check_axes(ax: Any) -> None:
    """Raises TypeError unless it is None or axes of matplotlib."""
    if ax is not None and not hasattr(ax, "get_window_extent"):
        name = f"; plot().figure.savefig({ax!r}) writes a picture" if isinstance(ax, str) else ""
        raise TypeError(f"ax: expected axes of matplotlib, or None, got {type(ax).__name__}{name}")


def is_bool(value: object) -> bool:
    """Whether it is a bool, Python's or NumPy's. There is none of NumPy where nobody has imported it."""
    if isinstance(value, bool):
        return True
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.bool_)


def check_bool(name: str, value: object) -> None:
    """Raises TypeError unless it is a bool, Python's or NumPy's."""
    if not is_bool(value):
        raise TypeError(f"{name}: expected a bool, got {type(value).__name__}")


def keep_plain_values(options: Any) -> None:
    """Makes numbers and bools of other libraries, such as NumPy's, Python's own in a frozen dataclass of options."""
    for field in dataclasses.fields(options):
        object.__setattr__(options, field.name, _plain(getattr(options, field.name)))


def _plain(value: Any) -> Any:
    if is_bool(value):
        return bool(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    return float(value) if isinstance(value, numbers.Real) else value


def check_count(name: str, value: object, below: int = 2**31, or_none: str = ", or None") -> None:
    """Raises TypeError or ValueError unless it is a whole number of at least 1; `or_none` is "" where None is none."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name}: expected a whole number of at least 1{or_none}, got {type(value).__name__}")
    if int(value) < 1:
        raise ValueError(f"{name}: expected a whole number of at least 1{or_none}, got {shown(value)}")
    if int(value) >= below:
        raise ValueError(f"{name}: expected a whole number of at most {below - 1:,}{or_none}, got {shown(value)}")


def check_frame_shift(seconds: object) -> None:
    """Raises TypeError or ValueError unless it is None or a plausible number of seconds."""
    if seconds is None:
        return
    check_real("frame_shift", seconds, "of seconds above 0", above=0.0)
    if seconds > 1:  # type: ignore[operator]
        hint = f"; write {seconds:g} milliseconds as {seconds / 1000:g}" if seconds < 1000 else ""  # type: ignore[operator]
        raise ValueError(f"frame_shift: expected at most 1 second, got {seconds!r}{hint}")


MOST_THREADS = 4096


def check_threads(threads: object) -> None:
    """Raises TypeError or ValueError unless it is a plausible number of threads."""
    check_count("threads", threads)
    if threads > MOST_THREADS:  # type: ignore[operator]
        raise ValueError(f"threads: expected at most {MOST_THREADS:,}, got {threads!r}")
