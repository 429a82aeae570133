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
    """How the kernels were built.

    Attributes
    ----------
    sources : dict of str to str
        A digest of the code of each fatbin; a result measured with another is stale.
    nvcc : str or None
        Version of the compiler.
    architectures : tuple of str
        Compute capabilities with machine code; none if there is only PTX.
    ptx : str or None
        Compute capability of the PTX, which the driver compiles for newer devices.
    kernels : dict of str to str
        SHA-256 of each fatbin.
    no_kernels, no_driver_calls : str or None
        Why there are no kernels, or no calls of the driver.
    summary : str
        One line: what was built for which devices, and how to get more.
    """

    sources: dict[str, str] = field(default_factory=dict)
    nvcc: str | None = None
    architectures: tuple[str, ...] = ()
    ptx: str | None = None
    kernels: dict[str, str] = field(default_factory=dict)
    no_kernels: str | None = None
    no_driver_calls: str | None = None
    summary: str = ""

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
    """The fatbin of ``cuda/**/NAME.cu``.

    Raises
    ------
    MissingDependencyError
        arcbeam was built without kernels: the message says what was missing then.
    """
    record = build_record()
    if record.no_kernels is not None:
        raise MissingDependencyError(
            f"this build of arcbeam has no CUDA kernels, because {record.no_kernels} when it was built; "
            f"docs/guide/install.md says how to build it for CUDA"
        )
    try:
        return (FOLDER / f"{name}.fatbin").read_bytes()
    except FileNotFoundError:
        raise KeyError(f"no kernels {name!r}: expected one of {sorted(record.kernels)}") from None
