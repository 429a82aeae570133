"""Optional packages, and functions of files: imported where they are needed; errors say what to install or type."""

import importlib
import runpy
import shlex
from pathlib import Path
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


def function_of_file(option: str, text: str) -> Any:
    """The function that ``FILE.py:FUNCTION`` names; the file is run. ValueError or OSError if there is none.

    What the file itself raises is raised.
    """
    path, _, name = text.rpartition(":")
    if not path.endswith(".py"):
        raise ValueError(f"{option}: expected FILE.py:FUNCTION, got {text!r}")
    with open(path, "rb"):  # an OSError that names the file
        pass
    defined = runpy.run_path(path, run_name=Path(path).stem)
    if not callable(defined.get(name)):
        found = [one for one, value in defined.items() if callable(value) and not one.startswith("_")]
        raise ValueError(f"{option}: expected a function of {path} ({', '.join(found) or 'it has none'}), got {name!r}")
    return defined[name]
