"""How objects show themselves: what they are, how large, and the options that differ from the defaults."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any


def changed(options: Any, *without: str) -> list[str]:
    """``name=value`` of the fields of a dataclass that differ from their defaults, but for some."""
    return [
        f"{field.name}={getattr(options, field.name)!r}"
        for field in fields(options)
        if field.name not in without and field.default is not MISSING and getattr(options, field.name) != field.default
    ]


def shown_as(what: str, *details: str) -> str:
    """``<what, detail, detail>``."""
    return f"<{', '.join((what, *details))}>"
