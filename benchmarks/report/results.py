"""Result files as the report sees them."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import record, registry
from benchmarks.harness.registry import Row

TABLES = "tables"  # the folder, beside those of devices, of the tables that are made from the results


@dataclass(frozen=True)
class Result:
    """One result file."""

    path: Path
    head: Row
    rows: list[Row]

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def device(self) -> str:
        return self.path.parent.name

    @property
    def gpu(self) -> str:
        """Its name; empty for a result of the CPU."""
        gpu: Any = self.head.get("gpu") or {"name": ""}
        return str(gpu["name"])

    @property
    def day_and_commit(self) -> str:
        dirty = " with changes" if self.head["dirty"] else ""
        return f"{str(self.head['time'])[:10]}, commit {str(self.head['commit'])[:7]}{dirty}"


def found(results: Path) -> Iterator[Result]:
    """Every result, by device and then in the order of the experiments."""
    folders = [path for path in results.iterdir() if path.is_dir() and path.name != TABLES] if results.is_dir() else []
    for folder in sorted(folders):
        for name in registry.names():
            path = folder / f"{name}.jsonl"
            if path.exists():
                yield Result(path, *record.read(path))


def latest(measured: list[Result], name: str, gpu: bool | None = None) -> Result | None:
    """The latest result of an experiment; `gpu`: of those of a GPU, or of the CPU, alone."""
    known = [result for result in measured if result.name == name and gpu in (None, bool(result.gpu))]
    return max(known, key=lambda result: str(result.head["time"]), default=None)


def plot(device: str, name: str) -> str:
    """The file of an experiment's curves, in the folder `plots` beside the page."""
    return f"plots/{device}-{name}.png"


def link(target: Path, folder: Path) -> str:
    """How a page in the folder names a file."""
    return Path(os.path.relpath(target, folder)).as_posix()
