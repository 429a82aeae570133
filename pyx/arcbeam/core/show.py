"""The text that ``repr`` gives: what an object is, how large it is, and its options that differ from the defaults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, fields
from typing import Any


class Formatted:
    """What has a text, and is formatted like it, as in ``f"{hypothesis:>40}"``."""

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


def changed(options: Any, *without: str) -> list[str]:
    """``name=value`` of each field of a dataclass that differs from its default, except for the fields `without`."""
    return [
        f"{field.name}={getattr(options, field.name)!r}"
        for field in fields(options)
        if field.name not in without and field.default is not MISSING and getattr(options, field.name) != field.default
    ]


def shown_as(what: str, *details: str) -> str:
    """``<what, detail, detail>``."""
    return f"<{', '.join((what, *details))}>"


def few(names: Sequence[str], count: int | None = None, most: int = 5) -> str:
    """The first of some names, and how many more there are; `count` is the number of all, if `names` has not all."""
    more = (len(names) if count is None else count) - len(names[:most])
    return ", ".join(map(repr, names[:most])) + (f" and {more:,} more" if more else "")


def shortened(value: Any, most: int = 60) -> str:
    """The ``repr`` of a value, cut if it is longer than `most` characters."""
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."
