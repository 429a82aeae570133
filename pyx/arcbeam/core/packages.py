"""Optional packages: imported where they are needed; the error for a missing one says what to install."""

import importlib
import shlex
from typing import Any

from arcbeam.core.errors import MissingDependencyError


def require(module: str, purpose: str, package: str | None = None) -> Any:
    """The imported module; MissingDependencyError says what it is for, and the package to install."""
    root = module.partition(".")[0]
    try:
        importlib.import_module(root)
        return importlib.import_module(module)
    except ImportError as error:
        reason = f"which cannot be imported ({error})"
        raise missing_package(package or root, purpose, reason) from error


def missing_package(package: str, purpose: str, reason: str = "which is not installed") -> MissingDependencyError:
    """The error for a missing package, in pip's words: never an extra of arcbeam, which pip might find elsewhere."""
    name = package.partition(">")[0]
    return MissingDependencyError(f"{purpose} needs the package {name}, {reason}: pip install {shlex.quote(package)}")
