"""Result files: JSON lines, a header first, then one line a row.

The header holds what a reader needs to judge or repeat the run: command, commit, processor, load of the machine
before the run and after, versions, repeats, seeds; of a run on a GPU also the GPU, its driver, its clocks before and
after (an idle GPU lowers them), and digests of the code of its kernels. A result is stale once this code has changed
(`changed_kernels`); comments and wrapping do not count, and no other code does. A file is written only when its
experiment has ended. Where a result needs a word later, ``remark`` and ``commit_remark`` are added to its header by
hand; the page shows them.
"""

import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from arcbeam.files.writing import replacing_text
from benchmarks.harness import backend
from benchmarks.harness.registry import Column, Row

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
MADE = ("benchmarks/results", "docs/benchmarks.md", "docs/plots")  # by runs and from them
PACKAGES = (
    "arcbeam", "numpy", "kaldi-decoder", "kaldifst", "sentencepiece", "kenlm", "flashlight-text", "pyctcdecode",
    "riva-asrlib-decoder", "nvidia-pytriton", "nemo-toolkit", "fast-gpu-asr", "torch", "torchaudio", "transformers",
    "onnxruntime", "soundfile", "cupy", "cuda-bindings", "sherpa-onnx",
)  # fmt: skip
# Packages that are installed under another name, too.
OTHER_NAMES = {"cupy": ("cupy-cuda13x", "cupy-cuda12x")}
# As compilers leave it in what they make.
COMPILERS = re.compile(rb"GCC: \([^)\0]*\) [0-9.]+|clang version [0-9.]+")
GPU_FIELDS = {
    "name": "name",
    "driver": "driver_version",
    "sm_mhz": "clocks.sm",
    "memory_mhz": "clocks.mem",
    "most_sm_mhz": "clocks.max.sm",
    "watts": "power.draw",
    "most_watts": "power.limit",
    "celsius": "temperature.gpu",
}


def git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    fields = dict(map(str.strip, line.split(":", 1)) for line in lines if ":" in line)
    family = f"family {fields['cpu family']} model {fields['model']}" if "cpu family" in fields else ""
    return f"{fields.get('model name', platform.machine())} {family}".strip()


def memory_gib() -> float:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        found[package] = "not installed"
        for name in (package, *OTHER_NAMES.get(package, ())):
            try:
                found[package] = importlib.metadata.version(name)
                break
            except importlib.metadata.PackageNotFoundError:
                pass
    return found | {"compiler": compiler()}


def compiler() -> str:
    """What compiled arcbeam's extensions, by what it left in them."""
    spec = importlib.util.find_spec("arcbeam")
    folders = [] if spec is None else spec.submodule_search_locations or []
    files = [path for folder in folders for path in Path(folder).glob("_*.so")]
    found = {match for path in files for match in COMPILERS.findall(path.read_bytes())}
    return " and ".join(sorted(match.decode() for match in found)) or "not known"


def commit() -> str:
    """Of the checkout; ARCBEAM_COMMIT says it where the sources came without their history, or with another."""
    return os.environ.get("ARCBEAM_COMMIT", "")[:12] or git("rev-parse", "--short=12", "HEAD")


def is_dirty() -> bool:
    """Whether the checkout has changes but for results, which one run leaves for the next.

    Taken for that of ARCBEAM_COMMIT where this is set.
    """
    if "ARCBEAM_COMMIT" in os.environ:
        return False
    return bool(git("status", "--porcelain", "--untracked-files=no", "--", ".", *(f":!{path}" for path in MADE)))


def gpu() -> dict[str, object]:
    """The first GPU in use as nvidia-smi says: name, driver, clocks in MHz, watts, degrees; empty without one."""
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0] or "0"
    fields = ",".join(GPU_FIELDS.values())
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits", "-i", first]
    try:
        line = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    values = [value.strip() for value in line.splitlines()[0].split(",")]
    return {
        key: float(value) if re.fullmatch(r"\d+(\.\d+)?", value) and key != "driver" else value
        for key, value in zip(GPU_FIELDS, values, strict=True)
    }


def device_folder(name: str) -> str:
    """Folder of the results of a GPU, from its name: "NVIDIA H200" to "h200"."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower().removeprefix("nvidia")).strip("-")


def built_kernels() -> dict[str, str]:
    """Digests of the code that the kernels in use were built from."""
    from arcbeam.gpu.kernel_images import build_record

    return build_record().sources


def built_with() -> str | None:
    """The version of nvcc that compiled the kernels in use."""
    from arcbeam.gpu.kernel_images import build_record

    return build_record().nvcc


def tree_kernels() -> dict[str, str]:
    """The same of the sources of this checkout."""
    return dict(backend.load("cuda_build").sources_digests())


def changed_kernels(head: Row, kernels: dict[str, str]) -> list[str]:
    """Of the kernels that a result was measured with, those that are others now: it is stale if there are any."""
    measured: Any = head.get("kernels", {})
    return [name for name, digest in measured.items() if kernels.get(name) != digest]


def failed(row: Row) -> bool:
    """Whether a row says that what it is about broke down; a missing package is no failure."""
    return str(row.get("status") or "").startswith("failed")


def is_missing(row: Row) -> bool:
    """Whether a row lacks what it is about, as a peer that is not installed."""
    return "missing: " in str(row.get("status") or "")


def lost(columns: Sequence[Column], before: Sequence[Row], now: Sequence[Row]) -> list[str]:
    """What a stored result has and a rerun lacks: columns that no row fills any more, and rows that are missing now.

    A row of the rerun is compared with the stored rows that have the same texts, its status apart.
    """
    filled = [
        {c.heading: c for c in columns if any(c.value(row) is not None for row in rows)} for rows in (before, now)
    ]
    found = [heading for heading, column in filled[0].items() if heading not in filled[1] and column.key != "status"]
    for row in filter(is_missing, now):
        texts = {key: value for key, value in row.items() if isinstance(value, str) and key != "status"}
        if texts and any(texts.items() <= old.items() and not is_missing(old) for old in before):
            found.append(f"{', '.join(texts.values())}: {row['status']}")
    return found


def is_done(path: Path) -> bool:
    """Whether the whole result of these kernels and this commit is there."""
    if not path.exists():
        return False
    head, rows = read(path)
    if changed_kernels(head, built_kernels()) or head["commit"] != commit():
        return False
    return not head.get("trial") and not any(map(failed, rows))


def header(experiment: str, command: str, *, kernels: Sequence[str] | None = None, **more: object) -> Row:
    """The first line of a result file; made before the run, so that the load is that of the others.

    ``kernels`` names those that are measured on a GPU; None for a run on the CPU.
    """
    device: Row = {}
    if kernels is not None:
        built = built_kernels()
        device = {"gpu": gpu(), "kernels": {name: built[name] for name in kernels}}
    made = versions() | ({} if kernels is None else {"nvcc": built_with() or "not known"})
    return {
        "record": "header",
        "experiment": experiment,
        "command": command,
        "time": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit(),
        "dirty": is_dirty(),
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": memory_gib(),
        "load_before": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "versions": made,
        **device,
        **more,
    }


def close(head: Row, seconds: float, seeds: Mapping[str, object]) -> None:
    """Adds to a header what is known after the run: clocks while they are still those of the work."""
    if head.get("gpu"):
        now = gpu()
        head["gpu_after"] = {key: now[key] for key in ("sm_mhz", "memory_mhz", "watts", "celsius") if key in now}
    head |= {"seconds": round(seconds, 1), "seeds": seeds, "load_after": round(os.getloadavg()[0], 2)}


def write(path: Path, head: Row, rows: Iterable[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [head, *({"record": "row", **row} for row in rows)]
    with replacing_text(path) as out:
        out.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def read(path: Path) -> tuple[Row, list[Row]]:
    """Header and rows of a result file. Raises ValueError where it is not one."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    if not lines or lines[0].get("record") != "header":
        raise ValueError(f"{path}: the first line is not a header")
    return lines[0], lines[1:]
