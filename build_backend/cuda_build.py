"""What a CUDA build needs, found or named: nvcc, cuda.h, cuda-bindings; and the kernels, one fatbin a ``cuda/**/*.cu``.

Used by ``setup.py``, the build backend ``hooks.py`` and benchmarks. ``docs/design/build.md`` lists the environment
variables.
"""

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

# pip puts this folder first on its path; the root of the project has a folder `cuda` that would hide cuda-python's.
sys.path.append(str(Path(__file__).resolve().parent))  # for who loads this file by its path
import source_digest

ROOT = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("ARCBEAM_KERNEL_CACHE") or ROOT / "build" / "kernels")

TOOLKITS = (Path("/usr/local/cuda"),)  # where installers put the toolkit without touching the PATH
DRIVER = Path("/proc/driver/nvidia/version")

# All of them: machine code for these, and PTX of the newest for what comes after. An nvcc leaves out what it lacks.
ARCHITECTURES = ("80", "86", "89", "90", "100", "120")
OLDEST = "80"
# No contraction and no fast mathematics: a fused rounding would break the equality of the engines.
NVCC_FLAGS = ["-fmad=false", "-std=c++17", "-O3", "-Icuda", "--expt-relaxed-constexpr"]
LINES = "-lineinfo"  # for the profiler; holds the folder of the sources, which a reproducible build must not
SMALL = "--compress-mode=size"  # a fifth of the bytes; nvcc has it from 12.8 on

# The compute capabilities of all GPUs, read in a process of its own: one that has used CUDA must not fork.
ASK_DRIVER = """
import ctypes
driver = ctypes.CDLL("libcuda.so.1")
count, value = ctypes.c_int(), ctypes.c_int()
assert driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
for device in range(count.value):
    parts = []
    for attribute in (75, 76):
        assert driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device) == 0
        parts.append(str(value.value))
    print("".join(parts))
"""

# cuda-bindings 13.5 does not compile against the headers of CUDA 13.0; what is built with an older one runs with it.
NEEDS_BINDINGS = "cuda-bindings>=12.9,<13.5"
NEEDS_HEADER = "nvidia-cuda-runtime>=13,<13.1"
NEEDS_NVCC = "nvidia-cuda-nvcc>=13,<13.1"


def requirements():
    """Packages that a CUDA build lacks here: 10 MB with an nvcc, 110 MB without; none where no kernels are wanted."""
    if not choose().names:
        return []
    if not find_nvcc():
        return [NEEDS_BINDINGS, NEEDS_HEADER, NEEDS_NVCC]
    return [NEEDS_BINDINGS] if find_header() else [NEEDS_BINDINGS, NEEDS_HEADER]


def package_roots():
    """Where the toolkit's PyPI packages put their parts: ``nvidia/cu13`` and the like."""
    try:
        spec = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):
        spec = None
    for folder in (spec.submodule_search_locations or []) if spec else []:
        yield from sorted(Path(folder).glob("cu[0-9]*"), reverse=True)


def find_nvcc():
    """Path of nvcc: named, on the PATH, in one of the toolkit's usual places, or of the PyPI package; None without."""
    named = os.environ.get("NVCC")
    if named:
        return shutil.which(named)
    homes = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    places = [home / "bin" / "nvcc" for home in [*homes, *TOOLKITS, *package_roots()]]
    return shutil.which("nvcc") or next((str(place) for place in places if os.access(place, os.X_OK)), None)


def find_header():
    """The folder of cuda.h: nvcc's own, one next to it, or that of the PyPI package; or None."""
    nvcc = find_nvcc()
    folders = []
    if nvcc:
        plan = subprocess.run([nvcc, "--dryrun", "-x", "cu", "-c", os.devnull], capture_output=True, text=True).stderr
        folders += [Path(found) for found in re.findall(r'"?-I([^"\s]+)"?', plan)]
        folders.append(Path(nvcc).resolve().parent.parent / "include")
    folders += [root / "include" for root in package_roots()]
    return next((str(folder.resolve()) for folder in folders if (folder / "cuda.h").exists()), None)


def why_no_driver_calls():
    """What `_cydriver.pyx` lacks here, as the end of a sentence; None if it can be built."""
    if os.environ.get("ARCBEAM_CUDA") == "0":
        return "ARCBEAM_CUDA was 0"
    try:
        bindings = importlib.util.find_spec("cuda.bindings")
    except ImportError:
        bindings = None
    if bindings is None:
        return "the package cuda-bindings was missing"
    if find_header() is None:
        return "cuda.h was missing (it comes with nvcc, and with the package nvidia-cuda-runtime)"
    return None


def units():
    """The files that are compiled, one fatbin each."""
    return sorted((ROOT / "cuda").rglob("*.cu"))


def sources_of(unit):
    """A file and all of ours that it includes, in whatever way."""
    return sorted(_read(unit).files)


def sources_digests():
    """A digest of the code of each fatbin, wherever it lies: what a benchmark result was measured with."""
    return {unit.stem: source_digest.digest(_read(unit).tokens) for unit in units()}


def text_digests():
    """SHA-256 over names and texts of the sources of each fatbin, which tells a profiler files and lines."""
    return {unit.stem: _digest(sources_of(unit)) for unit in units()}


def _read(unit):
    return source_digest.unit_of(unit.resolve(), [ROOT / "cuda"])


def _digest(paths):
    digest = hashlib.sha256()
    for path in paths:
        text = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT.resolve()).as_posix()} {len(text)}\n".encode())
        digest.update(text)
    return digest.hexdigest()


class Choice(NamedTuple):
    """Architectures that kernels are compiled for, as ("80", "90"), whether as PTX alone, and why, after "because"."""

    names: tuple
    why: str
    ptx_alone: bool = False


def choose():
    """What the environment requests, else what the GPUs of this machine need."""
    named = os.environ.get("ARCBEAM_CUDA_ARCHS", "").replace(",", " ").split()
    if os.environ.get("ARCBEAM_CUDA") == "0" or named == ["none"]:
        return Choice((), "the environment variable ARCBEAM_CUDA or ARCBEAM_CUDA_ARCHS said so")
    if named and named != ["all"]:
        return Choice(in_order(named), "ARCBEAM_CUDA_ARCHS names these")
    if named or os.environ.get("ARCBEAM_CUDA") == "1":
        return Choice(ARCHITECTURES, "all were asked for")
    gpus = gpus_here()
    usable = [gpu for gpu in gpus if number(gpu) >= number(OLDEST)]
    if usable:
        return Choice(in_order(usable), "of the GPU here")
    if gpus:
        return Choice((), f"the GPU here is older than compute capability {dotted(OLDEST)}")
    if DRIVER.exists():
        return Choice((OLDEST,), "there is an NVIDIA driver that does not tell its GPUs", ptx_alone=True)
    return Choice((), "there was no NVIDIA GPU")


def gpus_here():
    """Compute capabilities of the GPUs that the driver tells of, hidden ones too; none where there is no driver."""
    environment = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    try:
        said = subprocess.run(
            [sys.executable, "-c", ASK_DRIVER], env=environment, capture_output=True, text=True, timeout=120
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return said.stdout.split() if said.returncode == 0 else []


def number(architecture):
    """100 is newer than 90, and 90a than 90."""
    digits, suffix = re.fullmatch(r"(\d+)([a-z]?)", architecture).groups()
    return int(digits), suffix


def in_order(architectures):
    """From the oldest to the newest, each once. Raises SystemExit for what is no architecture."""
    wrong = [name for name in architectures if not re.fullmatch(r"\d+[a-z]?", name)]
    if wrong:
        raise SystemExit(
            f'ARCBEAM_CUDA_ARCHS: expected "all", "none", or architectures as in "80 90", got {", ".join(wrong)}'
        )
    return tuple(sorted(set(architectures), key=number))


def dotted(architecture):
    """8.0 of 80, 10.0 of 100, 9.0a of 90a."""
    return re.sub(r"(\d)(\D*)$", r".\1\2", architecture)


def known_to(nvcc, choice):
    """The chosen architectures as this nvcc has them. Raises SystemExit where the environment names one it lacks."""
    listed = subprocess.run([nvcc, "--list-gpu-code"], check=True, capture_output=True, text=True).stdout.split()
    known = in_order([name.removeprefix("sm_") for name in listed if name.startswith("sm_")])
    if choice.names == ARCHITECTURES:
        return tuple(name for name in choice.names if name in known)
    found = []
    for name in choice.names:
        # Machine code runs on GPUs of the same generation that are newer.
        older = [k for k in known if k.isdigit() and number(k) <= number(name)]
        if name in known:
            found.append(name)
        elif os.environ.get("ARCBEAM_CUDA_ARCHS") or not older:
            raise SystemExit(f"ARCBEAM_CUDA_ARCHS: {nvcc} does not know {name}; it knows {', '.join(known)}")
        else:
            found.append(older[-1])
    return in_order(found)


def build_kernels(folder):
    """Compiles every ``cuda/**/NAME.cu`` to ``folder/NAME.fatbin``; writes ``folder/build.json``, prints a line."""
    folder = Path(folder)
    choice, nvcc = choose(), find_nvcc()
    record = {"sources": sources_digests(), "nvcc": None, "architectures": [], "ptx": None, "kernels": {}}
    record["no_driver_calls"] = why_no_driver_calls()
    record["no_kernels"] = None
    if not choice.names:
        record["no_kernels"] = choice.why
    elif nvcc is None:
        record["no_kernels"] = "nvcc was missing (it comes with NVIDIA's CUDA toolkit, and with nvidia-cuda-nvcc)"
    elif not units():
        record["no_kernels"] = "the sources hold no kernels"
    else:
        names = known_to(nvcc, choice)
        version = subprocess.run([nvcc, "--version"], check=True, capture_output=True, text=True).stdout
        record["nvcc"] = re.search(r"V(\d+\.\d+\.\d+)", version)[1]
        record["architectures"] = [] if choice.ptx_alone else [dotted(name) for name in names]
        record["ptx"] = dotted(names[-1])
        record["kernels"] = _compile_all(nvcc, version, names, text_digests(), choice.ptx_alone)
    record["summary"] = summary(record, choice)
    print(record["summary"])
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.fatbin"):
        old.unlink()
    for name, cached in record["kernels"].items():
        shutil.copyfile(cached, folder / f"{name}.fatbin")
    record["kernels"] = {n: hashlib.sha256(Path(c).read_bytes()).hexdigest() for n, c in record["kernels"].items()}
    (folder / "build.json").write_text(json.dumps(record, indent=1) + "\n")


def summary(record, choice):
    """One line: what a build has kernels for, why, and what to set for others."""
    more = "ARCBEAM_CUDA_ARCHS=all builds for all, ARCBEAM_CUDA_ARCHS='80 90' for those"
    if record["no_kernels"]:
        return f"arcbeam is built for the CPU alone, because {record['no_kernels']}; {more}"
    compiled = ", ".join(record["architectures"])
    what = f"machine code of {compiled} and PTX of {record['ptx']}" if compiled else f"PTX of {record['ptx']} alone"
    without = f", but cannot call the driver, because {record['no_driver_calls']}" if record["no_driver_calls"] else ""
    return f"arcbeam is built for GPUs with {what} ({choice.why}){without}; {more}"


def _compile_all(nvcc, version, architectures, digests, ptx_alone):
    names = [unit.stem for unit in units()]
    doubles = {name for name in names if names.count(name) > 1}
    if doubles:
        raise SystemExit(f"cuda: expected a name of its own for each .cu file, got twice: {', '.join(sorted(doubles))}")
    named = os.environ.get("CXX")
    host = ["-ccbin", named] if named and not os.environ.get("NVCC_CCBIN") else []  # the latter is nvcc's own variable
    lines = [] if os.environ.get("SOURCE_DATE_EPOCH") else [LINES]
    newest = architectures[-1]
    targets = [] if ptx_alone else [f"-gencode=arch=compute_{a},code=sm_{a}" for a in architectures]
    targets.append(f"-gencode=arch=compute_{newest},code=compute_{newest}")
    known = subprocess.run([nvcc, "--help"], check=True, capture_output=True, text=True).stdout
    small = [SMALL] if SMALL.partition("=")[0] in known else []
    command = [nvcc, "-fatbin", *NVCC_FLAGS, *lines, *small, *host, *targets]
    # More cores than units: the architectures of a unit are compiled side by side, too.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    together = f"--threads={max(1, cores // len(names))}"
    CACHE.mkdir(parents=True, exist_ok=True)

    def compile_one(unit):
        key = hashlib.sha256(json.dumps([version, command, digests[unit.stem]]).encode()).hexdigest()[:16]
        made = CACHE / key / f"{unit.stem}.fatbin"
        if not made.exists():
            made.parent.mkdir(parents=True, exist_ok=True)
            partial = made.with_suffix(f".{os.getpid()}")
            got = subprocess.run(
                [*command, together, str(unit.relative_to(ROOT)), "-o", str(partial)],
                cwd=ROOT, capture_output=True, text=True,
            )  # fmt: skip
            if got.returncode != 0:
                raise SystemExit(f"nvcc failed on {unit.relative_to(ROOT)}:\n{got.stdout}{got.stderr}")
            print(got.stdout + got.stderr, end="")
            partial.replace(made)
        return unit.stem, made

    with ThreadPoolExecutor(cores) as workers:
        return dict(workers.map(compile_one, units()))
