"""Imports optional packages where they are needed; a missing one gives a message that says how to install it."""

from __future__ import annotations

import importlib
from types import ModuleType

from arcbeam.core.errors import MissingDependencyError


def require(module: str, purpose: str) -> ModuleType:
    """Import `module`, or raise MissingDependencyError saying what it is for and how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependencyError(
            f"{purpose} needs the package {module}, which cannot be imported ({error}): pip install arcbeam[build]"
        ) from error
