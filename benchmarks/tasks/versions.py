"""Two versions of arcbeam in one run: each decodes in a process of its own, and they take turns on one device.

A version is a folder that holds a built package: ``FOLDER/arcbeam/__init__.py`` with its extensions and kernels.
"""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import arcbeam
from benchmarks.adapters import gpu
from benchmarks.adapters.gpu import ChildFailed
from benchmarks.harness import timing
from benchmarks.tasks.version_worker import described, digest
from benchmarks.tasks.workers import LIMIT_S, Worker

ROOT = Path(__file__).resolve().parents[2]
OURS = Path(str(arcbeam.__file__)).parent.parent.resolve()


def folder_of(given: str) -> Path:
    """A folder that holds another version, as somebody named it. Raises FileNotFoundError with what to give."""
    folder = Path(given).expanduser().resolve()
    if not (folder / "arcbeam" / "__init__.py").is_file():
        raise FileNotFoundError(
            f"other: expected a folder that holds a built arcbeam, as pyx of a checkout after "
            f"`python setup.py build_ext --inplace`, got {folder}, which has no arcbeam/__init__.py"
        )
    return folder


class Program:
    """A program that was started, with what `Worker` needs of a process of multiprocessing."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], keeps: int) -> None:
        self.process = subprocess.Popen(command, env=environment, pass_fds=[keeps])

    def join(self, seconds: float | None = None) -> None:
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        self.process.kill()

    @property
    def exitcode(self) -> int | None:
        return self.process.poll()


class VersionProcess(Worker):
    """`benchmarks.tasks.version_worker` with the arcbeam of a folder; failures begin with the name of the version."""

    def __init__(self, name: str, folder: Path, limit_s: float = LIMIT_S) -> None:
        self.name, self.limit_s = name, limit_s
        self.pipe, theirs = multiprocessing.Pipe()
        # Ours may be in PYTHONPATH; the first folder that has arcbeam counts.
        places = [str(folder), str(ROOT), os.environ.get("PYTHONPATH", "")]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, places))}
        command = [sys.executable, "-P", "-m", "benchmarks.tasks.version_worker", str(theirs.fileno()), str(folder)]
        self.child = Program(command, environment, theirs.fileno())
        theirs.close()

    def answer(self) -> Any:
        try:
            return super().answer()
        except ChildFailed as error:
            raise ChildFailed(f"{self.name}: {error}") from None


@contextmanager
def started(folders: Mapping[str, Path]) -> Iterator[dict[str, VersionProcess]]:
    """A process of each version by its name, which are there when this returns and gone afterwards."""
    workers = {name: VersionProcess(name, folder) for name, folder in folders.items()}
    try:
        for worker in workers.values():
            worker.answer()
        yield workers
    finally:
        for worker in workers.values():
            worker.close()


def together(workers: Mapping[str, VersionProcess], method: str, *arguments: Any) -> dict[str, Any]:
    """The answers of all, busy at the same time."""
    for worker in workers.values():
        worker.send(method, *arguments)
    return {name: worker.answer() for name, worker in workers.items()}


def check(workers: Mapping[str, VersionProcess], twin: Sequence[Any]) -> list[str]:
    """Decodes with each version. Raises Wrong unless all answers have the bytes of the twin's; returns their digests.

    twin : hypotheses of the CPU twin of this version
    """
    wanted = list(map(digest, twin))
    for name, worker in workers.items():
        call(worker, "decode")
        found = call(worker, "digests")
        if len(found) != len(wanted):
            raise gpu.Wrong(f"{name}: expected {len(wanted)} answers, got {len(found)}")
        for i, (one, other) in enumerate(zip(found, wanted, strict=True)):
            if one != other:
                got = call(worker, "described", i)
                raise gpu.Wrong(f"{name}: utterance {i}: got {got}, expected the twin's {described(twin[i])}")
    return wanted


def times(workers: Mapping[str, VersionProcess], repeats: int) -> dict[str, timing.Timing]:
    """Seconds of each turn, as each version measures them."""
    found = {name: timing.Timing([], []) for name in workers}
    for _, name in timing.turns(workers, repeats):
        wall, cpu = call(workers[name], "decode")
        found[name].wall.append(wall)
        found[name].cpu.append(cpu)
    return found


def call(worker: VersionProcess, method: str, *arguments: Any) -> Any:
    worker.send(method, *arguments)
    return worker.answer()
