"""Result files: JSON lines, a header first, then one line a row.

The header holds what a reader needs to judge or repeat the run: command, commit, processor, load of the machine
before the run, versions, number of repeats. A file is written only when its experiment has ended.
"""

import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.registry import Row

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PACKAGES = ("arcbeam", "numpy", "kaldi-decoder", "kaldifst", "sentencepiece", "kenlm")


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
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def header(experiment: str, command: str, **more: object) -> Row:
    """The first line of a result file; made before the run, so that the load is that of the others."""
    return {
        "record": "header",
        "experiment": experiment,
        "command": command,
        "time": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": git("rev-parse", "--short=12", "HEAD"),
        "dirty": bool(git("status", "--porcelain", "--untracked-files=no")),
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": memory_gib(),
        "load_before": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release()}",
        "versions": versions(),
        **more,
    }


def write(path: Path, head: Row, rows: Iterable[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [head, *({"record": "row", **row} for row in rows)]
    partial = path.with_suffix(".partial")
    partial.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    partial.replace(path)


def read(path: Path) -> tuple[Row, list[Row]]:
    """Header and rows of a result file. Raises ValueError where it is not one."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    if not lines or lines[0].get("record") != "header":
        raise ValueError(f"{path}: the first line is not a header")
    return lines[0], lines[1:]
