"""Parts of ``make gpu-test`` as results: what each counted, how long it took, and with which kernels.

A part is a command of its own. What has passed with the kernels and the commit at hand is kept in the cache and not run
again, so that a run that was cut off goes on where it was; what has not been run has a row that says so.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue

from arcbeam.ctc.gpu.searches.kernels import all_kernels
from arcbeam.files.writing import replacing_text
from benchmarks.data.datasets import CACHE
from benchmarks.harness import record
from benchmarks.harness.registry import Column, Context, Row

KERNELS = (
    *(kernel.name for kernel in all_kernels()),
    "log_softmax",
    "transducer",
    "transducer_beam",
    "transducer_beam_fused",
    "transducer_beam_lattice",
    "transducer_fused",
)
KEPT = CACHE / "proof"
NOT_RUN = "not run with these kernels and this commit"
RECIPES = re.compile(r"make(\[\d+\])?: |gpu-test |failed: |== ")  # lines of make and of its recipes
OUTER = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "PART", "PYTEST_ARGS")  # of a make that runs this one
TAKES = {
    "again": "1: also what has passed with these kernels and this commit",
    "jobs": "parts that run side by side (1); seconds are then of a GPU that they share",
    "gpus": "GPUs over which these are spread (1); each part still sees all, its own first",
}
ENDS = [
    Column("seconds", "seconds", "{:.1f}"),
    Column("at", "at"),
    Column("last line", "last"),
    Column("status", "status"),
]


@dataclass(frozen=True)
class Part:
    """A command: the variables of ``make gpu-test``; `what` are the cells of its row that name it."""

    what: Mapping[str, str]
    variables: dict[str, str]

    @property
    def name(self) -> str:
        return "-".join(self.what.values())


@dataclass(frozen=True)
class Ended:
    """How a command ended: its code and its lines, those of stderr among them."""

    code: int
    lines: Sequence[str]

    def last(self) -> str:
        """The last line that is not of make or of a recipe."""
        own = (line.strip() for line in reversed(self.lines) if line.strip() and not RECIPES.match(line))
        return next(own, "")


Counts = Callable[[Ended], Row]


def make_gpu_test(variables: Mapping[str, str]) -> Ended:
    """Runs ``make gpu-test`` in the checkout, with this Python; every line is shown at once."""
    given = {"GPU_PYTHON": sys.executable, **variables}
    command = ["make", "--no-print-directory", "gpu-test", *(f"{key}={value}" for key, value in given.items())]
    environment = {key: value for key, value in os.environ.items() if key not in OUTER}
    lines: list[str] = []
    child = subprocess.Popen(
        command, cwd=record.ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", start_new_session=True,
    )  # fmt: skip
    assert child.stdout is not None
    try:
        for line in child.stdout:
            lines.append(line.rstrip("\n"))
            print(f"  {lines[-1]}", file=sys.stderr, flush=True)
        return Ended(child.wait(), lines)
    finally:
        if child.poll() is None:  # this process is to end
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGTERM)
            child.wait()


def pytest_counts(ended: Ended) -> Row:
    """Passed, failed and skipped tests by pytest's last line; errors count as failed.

    `status` is there where nothing was proved: tests failed, none ran, or all were skipped.
    """
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    summary = next((line for line in reversed(ended.lines) if re.search(r" in \d[\d.]*s\b", line)), "")
    for number, kind in re.findall(r"(\d+) (passed|failed|skipped|error)", summary):
        counts["failed" if kind == "error" else kind] += int(number)
    row: Row = dict(counts)
    if not ended.code and not counts["failed"] and counts["passed"]:
        return row
    if not ended.code and counts["skipped"] and not counts["failed"]:
        return row | {"status": "missing: every test was skipped"}
    return row | {"status": f"failed: make ended with {ended.code}, {counts['failed']} tests failed"}


def sanitizer_counts(ended: Ended) -> Row:
    """What compute-sanitizer has found, by its summary."""
    text = "\n".join(ended.lines)
    numbers = re.findall(r"(?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard)", text)
    if not numbers:
        return {"status": f"failed: make ended with {ended.code}, and compute-sanitizer with no summary"}
    found = sum(int(errors or hazards) for errors, hazards in numbers)
    row: Row = {"findings": found}
    if ended.code or found:
        row["status"] = f"failed: make ended with {ended.code}, compute-sanitizer with {found} findings"
    return row


def rows(
    experiment: str, context: Context, parts: Sequence[Part], chosen: Callable[[Part], bool], counts: Counts
) -> Iterator[Row]:
    """A row of each part: kept, or run where it is chosen.

    Raises
    ------
    RuntimeError
        The kernels in use were not built from the sources at hand.
    """
    kernels = record.built_kernels()
    if kernels != record.tree_kernels():
        raise RuntimeError("the kernels in use were not built from these sources: run make gpu-build first")

    jobs, gpus = (int(context.options.get(name) or 1) for name in ("jobs", "gpus"))
    as_built = {"AS_BUILT": "1"} if jobs > 1 else {}
    free: SimpleQueue[int] = SimpleQueue()
    for job in range(jobs):
        free.put(job % gpus)

    def row_of(part: Part) -> Row:
        kept = Kept(KEPT / experiment / f"{part.name}.json", kernels)
        known = None if chosen(part) and context.options.get("again") == "1" else kept.row()
        if known is not None or not chosen(part):
            return dict(part.what) | (known or {"status": NOT_RUN})
        context.progress(part.name)
        at, began = datetime.now(UTC), time.monotonic()
        gpu = free.get()
        visible = {"CUDA_VISIBLE_DEVICES": ",".join(str((gpu + i) % gpus) for i in range(gpus))} if gpus > 1 else {}
        ended = make_gpu_test(part.variables | as_built | visible)
        free.put(gpu)
        row: Row = {"seconds": round(time.monotonic() - began, 1), "at": at.strftime("%Y-%m-%d %H:%M UTC")}
        row |= {"last": ended.last(), **counts(ended)}
        kept.put(row)
        return dict(part.what) | row

    if jobs == 1:  # in this thread, which an interruption reaches
        yield from map(row_of, parts)
        return
    with ThreadPoolExecutor(jobs) as side_by_side:
        yield from side_by_side.map(row_of, parts)


@dataclass(frozen=True)
class Kept:
    """The row of a part that has passed, with the kernels and the commit of its time."""

    path: Path
    kernels: Mapping[str, str]

    def row(self) -> Row | None:
        """None where there is none of these kernels and this commit, or the checkout has changes."""
        if record.is_dirty() or not self.path.exists():
            return None
        found = json.loads(self.path.read_text(encoding="utf-8"))
        return dict(found["row"]) if (found["kernels"], found["commit"]) == (self.kernels, record.commit()) else None

    def put(self, row: Row) -> None:
        """Keeps a row, unless something is amiss with it: then nothing is kept."""
        self.path.unlink(missing_ok=True)
        if not row.get("status") and not record.is_dirty():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            kept = {"kernels": self.kernels, "commit": record.commit(), "row": row}
            with replacing_text(self.path) as out:
                json.dump(kept, out)


def some_of(context: Context, key: str, known: Sequence[str]) -> Sequence[str]:
    """What an option names, by commas; all where it is not given.

    Raises
    ------
    KeyError
        The option names something else.
    """
    wanted = context.options[key].split(",") if context.options.get(key) else list(known)
    if unknown := [name for name in wanted if name not in known]:
        raise KeyError(f"{key}: expected some of {', '.join(known)}, got {unknown[0]!r}")
    return wanted
