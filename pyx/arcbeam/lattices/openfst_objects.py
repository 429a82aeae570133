"""FST objects of the packages that have them, made through a file in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from arcbeam.core.packages import missing_package
from arcbeam.graph.openfst import roomy_memory

# The class that reads a vector file, by package; the first package that is installed is used.
READERS = {"kaldifst": "StdVectorFst", "pywrapfst": "Fst"}


def read_back(write: Callable[[Path], None]) -> Any:
    """The FST that `write` writes to a path; MissingDependencyError if neither kaldifst nor pywrapfst is installed."""
    for package, name in READERS.items():
        try:
            reader = getattr(import_module(package), name)
        except ModuleNotFoundError:
            continue
        with tempfile.TemporaryDirectory(prefix="arcbeam-", dir=roomy_memory()) as folder:
            write(Path(folder) / "fst")
            return reader.read(str(Path(folder) / "fst"))
    raise missing_package("kaldifst", "to_openfst")
