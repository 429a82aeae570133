"""The CPU twin of transducers with a switch: its module, compiled from sources with every change.

    python -m tests.mutants.twin KILLER NUMBER

runs a function of `tests.mutants.twin_killers` with a mutant in a process that has imported no other twin, and prints
what it has failed for.
"""

import ctypes
import importlib.util
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.mutants.catalogue import read
from tests.mutants.switch import NAME, Switched
from tests.simt import build
from tests.simt.build import ROOT

MODULE = "arcbeam.transducer._transducer"
SOURCE = ROOT / "pyx" / Path(*MODULE.split(".")).with_suffix(".pyx")
LIMIT_S = 300  # of a killer
# As setup.py makes it, but without optimising, which changes no byte.
CYTHON = ["--cplus", "-3", "-I", str(ROOT / "pyx"), "--module-name", MODULE, "--shared", "arcbeam._cyutility"]
CYTHON += ["-X", "boundscheck=False", "-X", "wraparound=False"]
FLAGS = ["-std=c++17", "-O0", "-ffp-contract=off", "-fno-math-errno", "-pthread", "-fPIC", "-w"]
STABLE = ["-DPy_LIMITED_API=0x030B0000", "-DCYTHON_LIMITED_API=1"]


def compiled(switched: Switched) -> Path:
    """The module."""
    cython = [sys.executable, "-m", "cython", *CYTHON, str(SOURCE)]
    translated = build.made(cython, [SOURCE, *sorted((ROOT / "pyx").rglob("*.pxd"))], "", ".cpp")
    includes = [f"-iquote{switched.folder / 'cpu_reference'}", *build.INCLUDES]
    includes.append(f"-I{sysconfig.get_path('include')}")
    compiler = os.environ.get("CXX", "g++").split()
    version = subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=True).stdout
    command = [*compiler, *FLAGS, *STABLE, *switched.flags, *includes, "-c"]
    changed = [path for place in ("cpu_reference", "cuda/shared") for path in (switched.folder / place).rglob("*.?pp")]
    objects = []
    for source in [translated, *sorted((ROOT / "cpu_reference" / "transducer").rglob("*.cpp"))]:
        inputs = [*build.files_of(source), *changed]
        objects.append(build.made([*command, str(switched.source(source))], inputs, version, ".o"))
    return build.made([*compiler, "-shared", "-pthread", *map(str, objects)], objects, version, ".so")


def take_the_place(switched: Switched, number: int) -> None:
    """From now on the twin is this one, with this mutant."""
    if MODULE in sys.modules:
        raise RuntimeError(f"{MODULE} has been imported before")
    path = compiled(switched)
    ctypes.c_int.in_dll(ctypes.CDLL(str(path)), NAME).value = number
    spec = importlib.util.spec_from_file_location(MODULE, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module
    spec.loader.exec_module(module)


def run(killer: str, number: int) -> str | None:
    """What the killer has failed for, or None. Raises TimeoutError where it has not ended within `LIMIT_S`."""
    command = [sys.executable, "-m", "tests.mutants.twin", killer, str(number)]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"{killer} has not ended within {LIMIT_S} s") from None
    if done.returncode == 0:
        return None
    return done.stdout.strip() or f"the process has ended with {done.returncode}: {done.stderr[-2000:]}"


def main() -> int:
    killer, number = sys.argv[1:]
    take_the_place(Switched(read()[0]), int(number))
    from tests.mutants import twin_killers

    try:
        getattr(twin_killers, killer)()
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
