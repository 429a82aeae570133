"""The machine code of kernels that were built: registers, stack, instructions, and what goes through local memory.

cuobjdump reads them from the fatbins of a package, which takes no GPU.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.adapters import Unavailable
from benchmarks.harness import backend

TOOLS = ("cuobjdump", "nvdisasm")  # the first calls the second
OF_WIDTH = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}  # bytes of an access; 4 by default


@dataclass(frozen=True)
class Code:
    """Of one kernel.

    registers : of a thread
    stack : bytes of a thread
    instructions : with those that fill the last line
    stored, loaded : bytes of all instructions that store to local memory, or load from it: what is spilled, and arrays
    """

    registers: int
    stack: int
    instructions: int
    stored: int
    loaded: int


def folders() -> Iterator[str]:
    """Where the tools may be: on the PATH, in a toolkit, in NVIDIA's or Triton's package."""
    build = backend.load("cuda_build")
    yield from os.environ.get("PATH", "").split(os.pathsep)
    homes = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    yield from (str(home / "bin") for home in [*homes, *build.TOOLKITS, *build.package_roots()])
    yield from (str(Path(place, "triton", "backends", "nvidia", "bin")) for place in sys.path)


def cuobjdump(*arguments: str | Path) -> str:
    """What it prints. Raises Unavailable where it is missing, or fails."""
    path = os.pathsep.join(folders())
    found = {tool: shutil.which(tool, path=path) for tool in TOOLS}
    if missing := [tool for tool, place in found.items() if place is None]:
        raise Unavailable(
            f"{' and '.join(missing)}: not found; CUDA's toolkit has them, and nvidia-cuda-{missing[0]} on PyPI"
        )
    command = [str(found["cuobjdump"]), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PATH": path})
    said = [line for line in done.stderr.splitlines() if "fatal" in line]
    if done.returncode or said:
        raise Unavailable(f"cuobjdump failed: {' '.join(said) or done.stderr.strip()}")
    return done.stdout


def architectures(fatbin: Path) -> set[str]:
    """Of which it has machine code: {"sm_90"}."""
    return set(re.findall(r"\.(sm_\d+[a-z]?)\.cubin", cuobjdump("--list-elf", fatbin)))


def of_fatbin(fatbin: Path, architecture: str) -> dict[str, Code]:
    """The kernels of a fatbin by their names, as ``sm_90`` runs them."""
    used = cuobjdump("-arch", architecture, "--dump-resource-usage", fatbin)
    counted = instructions(cuobjdump("-arch", architecture, "-sass", fatbin))
    return {
        name: Code(int(registers), int(stack), *counted[name])
        for name, registers, stack in re.findall(r"Function (\w+):\s+REG:(\d+) STACK:(\d+)", used)
    }


def instructions(sass: str) -> dict[str, tuple[int, int, int]]:
    """Of each function of a listing: instructions, and bytes that they store to local memory and load from it."""
    found: dict[str, tuple[int, int, int]] = {}
    for part in re.split(r"\n\s+Function : ", sass)[1:]:
        listed = re.findall(r"^\s+/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;", part, re.MULTILINE)
        moved = {"STL": 0, "LDL": 0}
        for kind, more in re.findall(r"\b(STL|LDL)([.\w]*) ", "\n".join(listed)):
            moved[kind] += next((OF_WIDTH[word] for word in more.split(".") if word in OF_WIDTH), 4)
        found[part.split(None, 1)[0]] = len(listed), moved["STL"], moved["LDL"]
    return found
