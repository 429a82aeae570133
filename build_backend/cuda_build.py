"""What a CUDA build needs, found or named: nvcc, cuda.h, cuda-bindings; and the kernels, one fatbin a ``cuda/**/*.cu``.

``setup.py`` uses it, and so does pip, as the build backend: setuptools', which on a machine with an NVIDIA driver or
nvcc asks for what is missing besides. Without either nothing is asked for, and the package decodes on the CPU.

It has a folder of its own because pip looks there before it looks for packages, and beside it is our folder ``cuda``,
which would hide cuda-python's.

Environment: ``ARCBEAM_CUDA_ARCHS`` narrows the architectures, as in ``90`` or ``"80 90"``, or builds no kernels:
``none``; ``NVCC`` names the compiler; ``ARCBEAM_CUDA=1`` asks for nvcc on any machine, ``ARCBEAM_CUDA=0`` on none.
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

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403  the hooks that stay as they are

sys.path.append(str(Path(__file__).resolve().parent))  # for who loads this file by its path
import source_digest

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / "build" / "kernels"

TOOLKITS = (Path("/usr/local/cuda"),)  # where installers put the toolkit without touching the PATH
DRIVER = Path("/proc/driver/nvidia/version")

# Machine code for these, and PTX of the newest for what comes after; an nvcc that lacks one leaves it out.
ARCHITECTURES = ("80", "86", "89", "90", "100", "120")
# No contraction and no fast mathematics: a fused rounding would break the equality of the engines.
NVCC_FLAGS = ["-fmad=false", "-std=c++17", "-O3", "-Icuda", "--expt-relaxed-constexpr", "-lineinfo"]

# cuda-bindings 13.5 does not compile against the headers of CUDA 13.0; what is built with an older one runs with it.
NEEDS_BINDINGS = "cuda-bindings>=12.9,<13.5"
NEEDS_HEADER = "nvidia-cuda-runtime>=13,<13.1"
NEEDS_NVCC = "nvidia-cuda-nvcc>=13,<13.1"


def get_requires_for_build_wheel(config_settings=None):
    return build_meta.get_requires_for_build_wheel(config_settings) + requirements()


def get_requires_for_build_editable(config_settings=None):
    return build_meta.get_requires_for_build_editable(config_settings) + requirements()


def requirements():
    """Packages that a CUDA build lacks here: 10 MB with an nvcc, 110 MB with a driver alone, none without both."""
    wanted = os.environ.get("ARCBEAM_CUDA", "")
    nvcc = find_nvcc()
    driver = wanted == "1" or DRIVER.exists()
    if wanted == "0" or not (nvcc or driver):
        return []
    if not nvcc:
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
    """Folder that holds cuda.h: nvcc's own, beside it, or of the PyPI package; None without."""
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


def chosen_architectures(nvcc):
    """Those that are wanted and that this nvcc knows."""
    known = set(subprocess.run([nvcc, "--list-gpu-code"], check=True, capture_output=True, text=True).stdout.split())
    wanted = os.environ.get("ARCBEAM_CUDA_ARCHS", "").replace(",", " ").split()
    missing = [a for a in wanted if f"sm_{a}" not in known]
    if missing:
        raise SystemExit(f"ARCBEAM_CUDA_ARCHS: {nvcc} does not know {', '.join(missing)}; it knows {sorted(known)}")
    return wanted or [a for a in ARCHITECTURES if f"sm_{a}" in known]


def build_kernels(folder):
    """Compiles every ``cuda/**/NAME.cu`` to ``folder/NAME.fatbin`` and writes ``folder/build.json`` beside them."""
    folder = Path(folder)
    nvcc = find_nvcc()
    record = {"sources": sources_digests(), "nvcc": None, "architectures": [], "ptx": None, "kernels": {}}
    record["no_driver_calls"] = why_no_driver_calls()
    record["no_kernels"] = None
    if os.environ.get("ARCBEAM_CUDA") == "0" or os.environ.get("ARCBEAM_CUDA_ARCHS") == "none":
        record["no_kernels"] = "the environment variable ARCBEAM_CUDA or ARCBEAM_CUDA_ARCHS said so"
    elif nvcc is None:
        record["no_kernels"] = "nvcc was missing (it comes with NVIDIA's CUDA toolkit, and with nvidia-cuda-nvcc)"
    elif not units():
        record["no_kernels"] = "the sources hold no kernels"
    else:
        architectures = chosen_architectures(nvcc)
        version = subprocess.run([nvcc, "--version"], check=True, capture_output=True, text=True).stdout
        record["nvcc"] = re.search(r"V(\d+\.\d+\.\d+)", version)[1]
        record["architectures"] = [re.sub(r"(\d)(\D*)$", r".\1\2", a) for a in architectures]
        record["ptx"] = record["architectures"][-1]
        record["kernels"] = _compile_all(nvcc, version, architectures, text_digests())
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.fatbin"):
        old.unlink()
    for name, cached in record["kernels"].items():
        shutil.copyfile(cached, folder / f"{name}.fatbin")
    record["kernels"] = {n: hashlib.sha256(Path(c).read_bytes()).hexdigest() for n, c in record["kernels"].items()}
    (folder / "build.json").write_text(json.dumps(record, indent=1) + "\n")


def _compile_all(nvcc, version, architectures, digests):
    names = [unit.stem for unit in units()]
    doubles = {name for name in names if names.count(name) > 1}
    if doubles:
        raise SystemExit(f"cuda: expected a name of its own for each .cu file, got twice: {', '.join(sorted(doubles))}")
    host = ["-ccbin", os.environ["CXX"]] if os.environ.get("CXX") else []
    newest = architectures[-1]
    targets = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in architectures]
    targets.append(f"-gencode=arch=compute_{newest},code=compute_{newest}")
    command = [nvcc, "-fatbin", *NVCC_FLAGS, *host, *targets]
    CACHE.mkdir(parents=True, exist_ok=True)

    def compile_one(unit):
        key = hashlib.sha256(json.dumps([version, command, digests[unit.stem]]).encode()).hexdigest()[:16]
        made = CACHE / key / f"{unit.stem}.fatbin"
        if not made.exists():
            made.parent.mkdir(parents=True, exist_ok=True)
            partial = made.with_suffix(f".{os.getpid()}")
            got = subprocess.run(
                [*command, str(unit.relative_to(ROOT)), "-o", str(partial)], cwd=ROOT, capture_output=True, text=True
            )
            if got.returncode != 0:
                raise SystemExit(f"nvcc failed on {unit.relative_to(ROOT)}:\n{got.stdout}{got.stderr}")
            print(got.stdout + got.stderr, end="")
            partial.replace(made)
        return unit.stem, made

    with ThreadPoolExecutor(os.cpu_count()) as workers:
        return dict(workers.map(compile_one, units()))
