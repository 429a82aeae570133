"""Compiles kernels with g++ for the emulator, and runs them from Python on numpy arrays.

>>> kernels = load("tests/simt/kernels/scan.cu")
>>> params = kernel_params(values=values, sums=sums, count=np.uint32(64))
>>> kernels.launch("prefix_sum", params, block=64, shared_bytes=128, seed=3)

Objects and libraries are kept under build/simt by the hash of all that went into them. ``CXX`` names the compiler;
``ARCBEAM_EMULATOR_FLAGS`` adds flags (``-DARCBEAM_EMULATOR_UCONTEXT`` takes the portable context switch).
"""

import ctypes
import fcntl
import functools
import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parent.parent.parent
HERE = Path(__file__).resolve().parent
CACHE = ROOT / "build" / "simt"
INCLUDED = ("cuda", "pyx", "cpu_reference", "tests/simt")
INCLUDES = [f"-I{folder}" for folder in INCLUDED]
ENGINE = ROOT / "pyx" / "arcbeam" / "ctc" / "gpu"  # of the host, which runs beside kernels
# Contraction would fuse a product and a sum; -O1 keeps the lines of errors and the time to compile low.
FLAGS = ["-std=c++17", "-DARCBEAM_EMULATOR", "-ffp-contract=off", "-fno-math-errno", "-g1", "-fPIC", "-pthread"]
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wdouble-promotion", "-Werror"]
POLICIES = ("random", "ahead", "forward", "reverse", "warp")
WRITES = ("bytes", "relaxed_word", "released_word")
LONG = os.environ.get("ARCBEAM_LONG_TESTS") == "1"  # pytest --long


class KernelError(Exception):
    """The emulator found a bug in a kernel: a race, a deadlock, a divergence, an access out of bounds."""


class _Region(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("bytes", ctypes.c_size_t), ("name", ctypes.c_char_p)]


class _FromHost(ctypes.Structure):
    _fields_ = [("step", ctypes.c_uint64), ("to", ctypes.c_void_p), ("source", ctypes.c_void_p)]
    _fields_ += [("bytes", ctypes.c_size_t), ("writes", ctypes.c_uint32)]


class Copy(NamedTuple):
    """What the host copies while a kernel runs, once so many scheduling points have passed.

    `writes` is ``"bytes"``, or what kernels may look at meanwhile: a word of 4 or 8 bytes, ``"relaxed_word"``, or
    ``"released_word"``, after which comes nothing that was copied before it.
    """

    step: int
    to: np.ndarray
    source: np.ndarray
    writes: str = "bytes"


class _Launch(ctypes.Structure):  # emulator::Launch in runtime.hpp
    _fields_ = [
        *[(name, ctypes.c_uint32) for name in ("grid", "block", "cluster", "shared_bytes", "resident")],
        *[(name, ctypes.c_uint32) for name in ("detect_races", "detect_hazards", "policy", "num_regions")],
        ("regions", ctypes.POINTER(_Region)),
        ("seed", ctypes.c_uint64),
        ("max_steps", ctypes.c_uint64),
        ("num_copies", ctypes.c_size_t),
        ("copies", ctypes.POINTER(_FromHost)),
        ("host", ctypes.c_void_p),
        ("host_context", ctypes.c_void_p),
        ("host_every", ctypes.c_uint64),
    ]


class Params(ctypes.Structure):
    """A kernel's parameter struct, with the arrays that its pointers lead to in ``arrays``."""

    arrays: Mapping[str, np.ndarray]


def kernel_params(**fields: Any) -> Params:
    """The parameter struct whose members are these, in this order.

    An array gives its pointer; ``(array,)`` gives a ``simt::Array`` of it; a numpy scalar and a ctypes structure (also
    another ``kernel_params``) give their bytes. The kernel may touch no other global memory than these arrays.
    """
    kinds, values, arrays = [], [], {}
    for name, value in fields.items():
        if isinstance(value, tuple):
            value = kernel_params(data=value[0], size=np.uint32(value[0].size))
        if isinstance(value, np.ndarray):
            if not value.flags.c_contiguous:
                raise ValueError(f"{name} is not contiguous")
            arrays[name] = value
            kinds.append((name, ctypes.c_void_p))
            values.append(value.ctypes.data)
        elif isinstance(value, ctypes.Structure):
            inner = getattr(value, "arrays", {})
            arrays |= {name if set(inner) == {"data"} else f"{name}.{key}": array for key, array in inner.items()}
            kinds.append((name, type(value)))
            values.append(value)
        elif isinstance(value, np.generic):
            kinds.append((name, np.ctypeslib.as_ctypes_type(value.dtype)))
            values.append(value.item())
        else:
            raise TypeError(f"{name}: expected an array, a numpy scalar or a ctypes structure, got {type(value)}")
    struct = type("Params", (Params,), {"_fields_": kinds})(*values)
    struct.arrays = arrays
    return struct


class Kernels:
    """The kernels of one library."""

    emulated = True

    def __init__(self, library: Path):
        self.library = ctypes.CDLL(str(library))
        self._emulate = self.library.emulate
        self._emulate.restype = ctypes.c_int

    def launch(
        self,
        kernel: str,
        params: ctypes.Structure,
        *,
        grid: int = 1,
        block: int = 32,
        cluster: int = 1,
        shared_bytes: int = 0,
        seed: int = 0,
        policy: str = "random",
        resident: int = 0,
        detect_races: bool = True,
        detect_hazards: bool = True,
        max_steps: int = 50_000_000,
        arrays: Mapping[str, np.ndarray] | None = None,
        memory: Sequence[tuple[int, int, bytes]] = (),
        copies: Sequence[Copy] = (),
        host: tuple[int, int, int] | None = None,
    ) -> int:
        """Run a kernel to its end; its arrays are changed in place. Gives the number of scheduling points.

        Parameters
        ----------
        params
            The kernel's parameter struct, best from `kernel_params`, which bounds global memory to its arrays.
        grid, block, cluster
            Blocks, threads a block, blocks a cluster.
        shared_bytes
            Dynamic shared memory of a block.
        seed, policy
            The schedule: one of `POLICIES`, and the seed of its choices.
        resident
            Blocks that run at the same time, 0 for all: a kernel whose blocks wait for later ones gets stuck.
        detect_races
            False: plain accesses are scheduling points instead, and a race shows as changed bytes.
        detect_hazards
            With races, also what compute-sanitizer's racecheck would report of shared memory: pairs of accesses that no
            barrier parts, although release and acquire may order them.
        max_steps
            Scheduling points after which the launch counts as stuck; so it does after so many plain accesses between
            two of them.
        arrays
            Further global memory that the kernel may touch.
        memory
            The same by first byte, number of bytes, and name.
        copies
            What the host copies while the kernel runs, in this order.
        host
            ``(function, context, steps)``: addresses of a C function that is called with the context every so many
            scheduling points, as if the host did it while the kernel runs, and of that context.

        Raises
        ------
        KernelError
            The kernel has a bug; says which threads, where and what.
        ValueError
            There is no such kernel, or no device takes such a launch.
        """
        known = {**getattr(params, "arrays", {}), **(arrays or {})}
        named = [*((array.ctypes.data, array.nbytes, name.encode()) for name, array in known.items()), *memory]
        regions = (_Region * max(1, len(named)))(*named)
        options = _Launch(
            grid, block, cluster, shared_bytes, resident, detect_races, detect_hazards, POLICIES.index(policy)
        )
        options.num_regions, options.regions = len(named), regions
        options.seed, options.max_steps = seed, max_steps
        from_host = (_FromHost * max(1, len(copies)))()
        for one, copy in zip(from_host, copies, strict=False):
            one.step, one.to, one.source = copy.step, copy.to.ctypes.data, copy.source.ctypes.data
            one.bytes, one.writes = copy.source.nbytes, WRITES.index(copy.writes)
        options.num_copies, options.copies = len(copies), from_host
        options.host, options.host_context, options.host_every = host or (None, None, 0)
        steps, error = ctypes.c_uint64(), ctypes.create_string_buffer(4096)
        status = self._emulate(
            kernel.encode(),
            ctypes.byref(options),
            ctypes.byref(params),
            ctypes.c_size_t(ctypes.sizeof(params)),
            ctypes.byref(steps),
            error,
            ctypes.c_size_t(len(error)),
        )
        if status:
            raise (KernelError if status == 1 else ValueError)(error.value.decode())
        return steps.value


def schedules(count: int = 50, *, always: bool = False) -> Iterator[dict[str, Any]]:
    """So many schedules, of every policy in turn: keyword arguments for `Kernels.launch`.

    Only the long tests run all of them, unless `always`; the others run one of each policy.
    """
    for seed in range(count if LONG or always else min(count, len(POLICIES))):
        yield {"seed": seed, "policy": POLICIES[seed % len(POLICIES)]}


def load(*sources: str | Path, flags: Sequence[str] = ()) -> Kernels:
    """The kernels of these .cu files, compiled for the emulator unless they have been already.

    flags : for the kernels; the emulator's own sources are compiled once, whatever they are
    """
    return _loads[-1](tuple(Path(source).resolve() for source in sources), tuple(flags))


@functools.cache
def compiled(sources: tuple[Path, ...], flags: tuple[str, ...], of_all: tuple[str, ...] = ()) -> Kernels:
    if os.environ.get("ARCBEAM_EMULATOR") == "none":
        raise RuntimeError("a test that runs kernels has the marker kernels: see tests/conftest.py")
    compiler = os.environ.get("CXX", "g++").split()
    options = [*FLAGS, *WARNINGS, *INCLUDES, *os.environ.get("ARCBEAM_EMULATOR_FLAGS", "").split(), *of_all]
    runtime = sorted(HERE.glob("*.cpp"))
    version = subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=True).stdout
    objects = []
    # The machine runs at every scheduling point: optimised, and compiled once for all kernels.
    for source, more in [*((path, ["-O3"]) for path in runtime), *((path, [*flags, "-O1"]) for path in sources)]:
        command = [*compiler, *options, *more, "-c", "-x", "c++", str(source)]
        objects.append(made(command, files_of(source), version, ".o"))
    library = made([*compiler, *FLAGS, "-shared", *map(str, objects)], objects, version, ".so")
    return Kernels(library)


_loads: list[Callable[[tuple[Path, ...], tuple[str, ...]], Kernels]] = [compiled]


@contextmanager
def loading_by(load: Callable[[tuple[Path, ...], tuple[str, ...]], Kernels]) -> Iterator[None]:
    """Within it, `load` calls this instead of `compiled`."""
    _loads.append(load)
    try:
        yield
    finally:
        _loads.pop()


def files_of(source: Path) -> list[Path]:
    """A source and every file of ours that it includes, whatever the conditions."""
    found = [source]
    for path in found:  # which grows
        found += [header for header in _included(path) if header not in found]
    return [source, *sorted(found[1:])]


@functools.cache
def _included(path: Path) -> list[Path]:
    """What a file includes by name, from its own folder or from those that the compiler is given."""
    folders = (path.parent, *(ROOT / folder for folder in INCLUDED))
    names = re.findall(r'^\s*#\s*include\s*"([^"]+)"', path.read_text(), re.MULTILINE)
    places = [[folder / name for folder in folders if (folder / name).exists()] for name in names]
    return [Path(os.path.normpath(place[0])) for place in places if place]


def made(command: Sequence[str], inputs: Sequence[str | Path], version: str, suffix: str) -> Path:
    """What the command makes of the inputs, from the cache where it is there."""
    digest = hashlib.sha256("\0".join([*(part.replace(str(ROOT), "") for part in command), version]).encode())
    for path in inputs:
        digest.update(Path(path).read_bytes())
    target = CACHE / f"{digest.hexdigest()[:24]}{suffix}"
    if target.exists():
        return target
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(target.with_suffix(".lock"), "w") as lock:  # test processes that run at the same time compile once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            with tempfile.TemporaryDirectory(dir=CACHE) as folder:
                out = Path(folder, target.name)
                done = subprocess.run([*command, "-o", str(out)], cwd=ROOT, capture_output=True, text=True)
                if done.returncode:
                    raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
                out.rename(target)
    return target
