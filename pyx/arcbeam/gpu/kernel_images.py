"""The kernels that were compiled when arcbeam was built: fatbins in the folder ``kernels`` of the package."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from arcbeam.core.errors import MissingDependencyError

FOLDER = Path(__file__).parent.parent / "kernels"


@dataclass(frozen=True)
class BuildRecord:
    """How the kernels were built."""

    sources: dict[str, str] = field(default_factory=dict)  # digests of the code; results of another are stale
    nvcc: str | None = None  # version of the compiler
    architectures: tuple[str, ...] = ()  # compute capabilities with machine code; none: only PTX
    ptx: str | None = None  # compute capability of the PTX, which the driver compiles for newer devices
    kernels: dict[str, str] = field(default_factory=dict)  # SHA-256 of each fatbin
    no_kernels: str | None = None  # why there are none
    no_driver_calls: str | None = None  # why there are none
    summary: str = ""  # one line: what was built for which devices, and how to get more

    def require_kernels(self) -> None:
        """MissingDependencyError, with the reason, if there are none."""
        if self.no_kernels is not None:
            raise MissingDependencyError(
                f"this build of arcbeam has no CUDA kernels, because {self.no_kernels} when it was built; "
                f"docs/guide/install.md says how to build it for CUDA"
            )

    def needed_driver(self) -> tuple[int, int]:
        """The CUDA version that a driver must support to load these kernels: any of the compiler's generation."""
        return (int(self.nvcc.split(".")[0]), 0) if self.nvcc else (0, 0)


@lru_cache(maxsize=1)
def build_record() -> BuildRecord:
    """The record that the build has written."""
    try:
        stored = json.loads((FOLDER / "build.json").read_text())
    except FileNotFoundError:
        unknown = "the build left no record of them"
        return BuildRecord(no_kernels=unknown)
    stored["architectures"] = tuple(stored["architectures"])
    return BuildRecord(**stored)


def image(name: str) -> bytes:
    """The fatbin of ``cuda/**/NAME.cu``; MissingDependencyError if arcbeam was built without kernels."""
    record = build_record()
    record.require_kernels()
    try:
        return (FOLDER / f"{name}.fatbin").read_bytes()
    except FileNotFoundError:
        raise KeyError(f"no kernels {name!r}: expected one of {sorted(record.kernels)}") from None
