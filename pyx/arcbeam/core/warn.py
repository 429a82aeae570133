"""Warnings that name the line of the user's code that led to them, however deep in the package they arise."""

from __future__ import annotations

import sys
import warnings

PACKAGE = __name__.partition(".")[0]


def warn(message: str | UserWarning) -> None:
    """Issues a UserWarning, or one of its kinds, at the first caller outside of this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == PACKAGE:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level + 1)
