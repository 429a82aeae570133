"""Result files as the report sees them: which there are, and which were measured with other code than today's."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import record, registry
from benchmarks.harness.registry import Row

TABLES = "tables"  # the folder, beside those of devices, of the tables that are made from the results
# What a reader must know of a result, as a sentence in its table and as a mark on the page.
STALE, STALE_MARK = "**STALE: measured with other kernels than those of this version.**", " **STALE**"
OTHER_HOST_CODE, OTHER_HOST_CODE_MARK = "The code around the kernels has changed since.", " †"


@dataclass(frozen=True)
class Result:
    """One result file; `stale` tells whether its kernels are others now."""

    path: Path
    head: Row
    rows: list[Row]
    stale: bool

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def device(self) -> str:
        return self.path.parent.name

    @property
    def warning(self) -> tuple[str, str]:
        """A sentence and a mark, both empty where nothing has changed."""
        if self.stale:
            return STALE, STALE_MARK
        return (OTHER_HOST_CODE, OTHER_HOST_CODE_MARK) if record.has_other_host_code(self.head) else ("", "")


def found(results: Path, kernels: Mapping[str, str] | None = None) -> Iterator[Result]:
    """Every result, by device and then in the order of the experiments.

    Results of other kernels than those of the digests `kernels` (None: the checkout's) are stale.
    """
    now = dict(record.tree_kernels() if kernels is None else kernels)
    folders = [path for path in results.iterdir() if path.is_dir() and path.name != TABLES] if results.is_dir() else []
    for folder in sorted(folders):
        for name in registry.names():
            path = folder / f"{name}.jsonl"
            if path.exists():
                head, rows = record.read(path)
                yield Result(path, head, rows, bool(record.changed_kernels(head, now)))


def same(one: str, other: str) -> bool:
    """Whether two texts differ in nothing but what has changed since: that goes with the sources, not with a result."""

    def plain(text: str) -> str:
        for sentence in (STALE, OTHER_HOST_CODE):
            text = text.replace(f"{sentence}\n\n", "")
        return text.replace(STALE_MARK, "").replace(OTHER_HOST_CODE_MARK, "")

    return plain(one) == plain(other)


def plot(device: str, name: str) -> str:
    """The file of an experiment's curves, in the folder `plots` beside the page."""
    return f"plots/{device}-{name}.png"


def link(target: Path, folder: Path) -> str:
    """How a page in the folder names a file."""
    return Path(os.path.relpath(target, folder)).as_posix()
