"""Compiles kernels with nvcc where it is found, and reads what became of the arithmetic of scores."""

import os
import re
import shutil
import subprocess
from collections.abc import Collection
from pathlib import Path

from tests.simt.build import ROOT, files_of, made

# One of each generation that differs for the wrappers: no clusters, clusters, and what came later.
ARCHITECTURES = ("80", "86", "89", "90", "100", "120")
FLAGS = ["-std=c++17", "-fmad=false", "-Icuda", "-Xcudafe", "--display_error_number", "-Werror", "all-warnings"]

# Contraction is one rounding where the law has two. ptxas contracts what carries no rounding of its own: with
# -fmad=false every sum and product says .rn. Flushed subnormals and approximations differ from the CPU as well.
INEXACT = re.compile(
    r"\b(?:fma(?:\.\w+)*\.f(?:32|64|32x2)|(?:add|sub|mul)(?:\.ftz)?(?:\.sat)?\.f(?:32|64)|\w+(?:\.\w+)*\.(?:ftz|approx)\b\S*)"
)


def nvcc() -> str | None:
    """The compiler: on the PATH, under CUDA_HOME, or where CUDA installs itself."""
    places = [os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/bin", "/usr/local/bin"]
    return shutil.which("nvcc") or shutil.which("nvcc", path=os.pathsep.join(places))


def compile_all(source: Path, out: Path, architectures: Collection[str] = ARCHITECTURES) -> None:
    """Machine code of one source for all architectures, with PTX of the last, as the package embeds it."""
    newest = max(architectures, key=int)
    targets = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in architectures]
    targets.append(f"-gencode=arch=compute_{newest},code=compute_{newest}")
    _run(str(nvcc()), *FLAGS, *targets, "--fatbin", str(source), "-o", str(out))


def ptx_of(source: Path, architecture: str = "90", flags: Collection[str] = ()) -> str:
    """The PTX of a source, from the cache where it is there; `flags` come after the usual ones."""
    compiler = str(nvcc())
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
    command = [compiler, *FLAGS, *flags, f"-arch=compute_{architecture}", "--ptx", str(source)]
    return made(command, files_of(source), version, ".ptx").read_text()


def functions(ptx: str) -> dict[str, str]:
    """The body of every entry and function in a PTX text, by name."""
    heads = re.compile(
        r"^(?:\.\w+(?: \S+)? )*\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)[^;{]*?^\{(.*?)^\}", re.M | re.S
    )
    return dict(heads.findall(ptx))


def inexact_arithmetic(ptx: str, names: Collection[str]) -> list[str]:
    """Instructions in these functions that round otherwise than the law says, as `function: instruction`."""
    bodies = functions(ptx)
    missing = sorted(set(names) - set(bodies))
    if missing:
        raise LookupError(f"no function {', '.join(missing)} in the PTX; it has {', '.join(sorted(bodies))}")
    return [
        f"{name}: {line.strip()}"
        for name in names
        for line in bodies[name].splitlines()
        if INEXACT.search(line.partition("//")[0])
    ]


def _run(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
