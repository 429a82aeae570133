"""The text that ``repr`` gives: what an object is, how large it is, and its options that differ from the defaults."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any


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


def shortened(value: Any, most: int = 60) -> str:
    """The ``repr`` of a value, cut if it is longer than `most` characters."""
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."
