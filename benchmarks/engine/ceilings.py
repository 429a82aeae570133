"""What a GPU can do at most, measured by kernels of our own: random reads, minima, copies, barriers, launches.

The kernels are compiled when they are wanted, by the nvcc that arcbeam was built with, and go through arcbeam's own
layer over the driver. Times are between two events on their stream; every answer is checked before it is timed.
"""

import hashlib
import statistics
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.adapters.gpu import DeviceMemory, Wrong, require
from benchmarks.data.datasets import CACHE
from benchmarks.harness import backend
from benchmarks.harness.record import ROOT
from benchmarks.harness.registry import Column, Context, Row

SOURCE = ROOT / "benchmarks" / "engine" / "kernels" / "ceilings.cu"
KEPT = CACHE / "kernels"
WARP = 32


@dataclass(frozen=True)
class Size:
    """How much to do; small under test."""

    hbm_entries: int = 1 << 28  # of 16 bytes
    l2_entries: int = 1 << 21
    slots: int = 1 << 20  # of 8 bytes
    shared_slots: int = 1 << 12
    threads: int = 512
    blocks_a_multiprocessor: int = 4
    steps: int = 512
    copy_bytes: int = 1 << 28
    moved_entries: int = 1 << 16  # half of them read, half of them written
    calls: int = 200


def compile_kernels(capability: tuple[int, int], source: Path = SOURCE) -> bytes:
    """The fatbin of a file of kernels for this compute capability; compiled once, then from the cache."""
    cuda_build = backend.load("cuda_build")
    nvcc = cuda_build.find_nvcc()
    if nvcc is None:
        raise ImportError("nvcc is missing, which compiles benchmarks/engine/kernels")
    command = [nvcc, "-fatbin", *cuda_build.NVCC_FLAGS, f"-arch=sm_{capability[0]}{capability[1]}", str(source)]
    # Several processes of an experiment want them.
    kept = KEPT / f"{source.stem}-{_digest(command, source)}.fatbin"
    if not kept.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=KEPT) as folder:
            made = Path(folder, "made.fatbin")
            subprocess.run([*command, "-o", str(made)], cwd=ROOT, check=True)
            made.replace(kept)
    return kept.read_bytes()


def _digest(command: list[str], source: Path) -> str:
    """Of all that goes into the kernels: the command, the compiler's size and time, the sources."""
    compiler = Path(command[0]).stat()
    digest = hashlib.sha256(repr((command, compiler.st_size, compiler.st_mtime_ns)).encode())
    beside = sorted(source.parent.glob("*.cuh"))
    for path in [source, *beside, *sorted((ROOT / "cuda").rglob("*.[ch]*"))]:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


# What the kernels compute, in numpy


def mixed(x: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    x = x ^ (x >> 16)
    x = x * np.uint32(0x7FEB352D)
    x = x ^ (x >> 15)
    x = x * np.uint32(0x846CA68B)
    return x ^ (x >> 16)


def drawn(ranks: npt.NDArray[np.uint32], steps: int) -> npt.NDArray[np.uint32]:
    """[ranks, steps]: the numbers that threads draw."""
    step = np.arange(steps, dtype=np.uint32)
    return mixed(ranks[:, None] * np.uint32(0x9E3779B1) + step * np.uint32(0x85EBCA77))


def follows(at: npt.NDArray[np.uint32], mask: int) -> npt.NDArray[np.uint32]:
    return (at * np.uint32(1664525) + np.uint32(1013904223)) & np.uint32(mask)


def sums_of_reads(ranks: npt.NDArray[np.uint32], steps: int, mask: int) -> npt.NDArray[np.uint64]:
    at = drawn(ranks, steps) & np.uint32(mask)
    parts = (follows(at, mask), at * np.uint32(2), ~at, np.ones_like(at))
    return sum(part.astype(np.uint64) for part in parts).sum(axis=1)  # type: ignore[union-attr, return-value]


def ends_of_walks(ranks: npt.NDArray[np.uint32], steps: int, mask: int) -> npt.NDArray[np.uint64]:
    at = drawn(ranks, 1)[:, 0] & np.uint32(mask)
    for _ in range(steps):
        at = follows(at, mask)
    return at.astype(np.uint64)


def minima(ranks: npt.NDArray[np.uint32], steps: int, mask: int) -> npt.NDArray[np.uint64]:
    table = np.full(mask + 1, ~np.uint64(0))
    values = drawn(ranks, steps)
    packed = values.astype(np.uint64) << np.uint64(32) | ranks[:, None].astype(np.uint64)
    np.minimum.at(table, mixed(values) & np.uint32(mask), packed)
    return table


class Ceilings:
    """The kernels on one device, timed by events; by so many blocks, or by as many as the device can do most with."""

    def __init__(
        self, size: Size | None = None, repeats: int = 5, image: bytes | None = None, blocks: int | None = None
    ) -> None:
        from arcbeam.gpu import _cuda
        from arcbeam.gpu._launch import Module

        self.size = size or Size()
        self.repeats = repeats
        self.context = _cuda.context_of(0)
        self.properties = _cuda.device_properties(0)
        image = image or compile_kernels(self.properties["compute_capability"])
        self.module = Module(self.context, "ceilings", image)
        self.blocks = blocks or self.properties["multiprocessors"] * self.size.blocks_a_multiprocessor
        self.out = DeviceMemory()
        self.stream = self.out.stream

    def launch(
        self, kernel: str, memory: int, mask: int, steps: int, blocks: int, shared_bytes: int = 0, threads: int = 0
    ) -> None:
        from arcbeam.gpu._launch import launch_kernel

        reads = kernel in ("fill_table", "random_reads", "dependent_reads", "moves")
        pointers = (memory, self.out.address_of()) if reads else (memory,)
        parameter = struct.pack(f"<{len(pointers)}QII", *pointers, mask, steps)
        launch_kernel(
            self.module.function(kernel), self.stream, parameter, blocks=blocks,
            threads=threads or self.size.threads, shared_bytes=shared_bytes,
        )  # fmt: skip

    def seconds(self, work: Callable[[], None]) -> list[float]:
        """Of the device, for each of the repeats."""
        from arcbeam.gpu._launch import Event

        found = []
        for repeat in range(self.repeats + 1):
            start, end = (Event(self.context, timed=True) for _ in range(2))
            start.mark(self.stream)
            work()
            end.mark(self.stream)
            if not end.reached(60_000):
                raise TimeoutError("a kernel did not end within a minute")
            if repeat:
                found.append(end.seconds_since(start))
        return found

    def ranks(self, count: int = 256) -> npt.NDArray[np.uint32]:
        """Some of the threads of a grid: those whose answers are checked."""
        return np.arange(min(count, self.blocks * self.size.threads), dtype=np.uint32)

    def expect(self, what: str, found: npt.NDArray[Any], wanted: npt.NDArray[Any]) -> None:
        wrong = np.flatnonzero(found != wanted)
        if len(wrong):
            i = int(wrong[0])
            raise Wrong(f"{what}: element {i} is {found[i]}, expected {wanted[i]}")

    def reads(self, entries: int, on_host: bool = False) -> tuple[list[float], list[float]]:
        """Independent 16-byte reads a second over a table, and nanoseconds of one that needs the one before.

        on_host : the table lies in page-locked memory, which the device reads over the bus
        """
        mask, steps = entries - 1, self.size.steps
        table, address = self.pinned(16 * entries) if on_host else self.memory(16 * entries)
        self.out.buffer.resize(8 * self.blocks * self.size.threads)
        ranks = self.ranks()
        self.launch("fill_table", address, mask, 0, self.blocks)
        self.launch("random_reads", address, mask, steps, self.blocks)
        self.expect("random reads", self.out.read(len(ranks), np.uint64), sums_of_reads(ranks, steps, mask))
        took = self.seconds(lambda: self.launch("random_reads", address, mask, steps, self.blocks))
        many = self.blocks * self.size.threads * steps
        # One warp, so that nothing but the latency counts.
        self.launch("dependent_reads", address, mask, steps, 1, threads=WARP)
        self.expect("dependent reads", self.out.read(WARP, np.uint64), ends_of_walks(ranks[:WARP], steps, mask))
        walked = self.seconds(lambda: self.launch("dependent_reads", address, mask, steps, 1, threads=WARP))
        del table
        return [many / s for s in took], [1e9 * s / steps for s in walked]

    def memory(self, size: int) -> tuple[Any, int]:
        """Memory of the device, and its address."""
        found = DeviceMemory()
        found.buffer.resize(size)
        return found, found.address_of()

    def pinned(self, size: int) -> tuple[Any, int]:
        """Page-locked memory, and its address."""
        from arcbeam.gpu._memory import PinnedBuffer

        found = PinnedBuffer(self.context)
        found.resize(size)
        return found, int(found.host_address)

    def moves(self) -> list[float]:
        """Bytes a second that are read or written where both go in order, in L2."""
        entries, steps = self.size.moved_entries, self.size.steps
        table, address = self.memory(16 * entries)
        self.launch("fill_table", address, entries - 1, 0, self.blocks)
        took = self.seconds(lambda: self.launch("moves", address, entries - 1, steps, self.blocks))
        halves = table.read(4 * entries, np.uint32).reshape(2, -1)
        at = np.arange(entries // 2, dtype=np.uint32)
        wanted = np.stack([follows(at, entries - 1), at * np.uint32(2), ~at, np.ones_like(at)], axis=1).reshape(-1)
        self.expect("moves", halves[1], wanted)
        return [16 * entries * steps / s for s in took]

    def global_minima(self) -> list[float]:
        """64-bit atomic minima a second, at random places of a table in L2."""
        mask, steps, few = self.size.slots - 1, self.size.steps, 4
        self.out.buffer.resize(8 * self.size.slots)
        address = self.out.address_of()
        self.out.buffer.fill(0xFF)
        self.launch("global_minima", address, mask, few, self.blocks)
        everyone = np.arange(self.blocks * self.size.threads, dtype=np.uint32)
        self.expect("global minima", self.out.read(self.size.slots, np.uint64), minima(everyone, few, mask))
        # From here on few of them lower anything, as in a search.
        took = self.seconds(lambda: self.launch("global_minima", address, mask, steps, self.blocks))
        return [self.blocks * self.size.threads * steps / s for s in took]

    def shared_minima(self) -> list[float]:
        """The same in shared memory."""
        mask, steps = self.size.shared_slots - 1, self.size.steps
        self.out.buffer.resize(8 * self.blocks)
        address, shared = self.out.address_of(), 8 * self.size.shared_slots
        self.out.buffer.fill(0)
        self.launch("shared_minima", address, mask, steps, self.blocks, shared)
        first = np.arange(self.size.threads, dtype=np.uint32)
        wanted = minima(first, steps, mask).sum(dtype=np.uint64)
        self.expect("shared minima", self.out.read(1, np.uint64), np.array([wanted]))
        took = self.seconds(lambda: self.launch("shared_minima", address, mask, steps, self.blocks, shared))
        return [self.blocks * self.size.threads * steps / s for s in took]

    def barriers(self) -> list[float]:
        """Nanoseconds of a barrier of a block."""
        self.out.buffer.resize(8 * self.blocks)
        steps, address = 8 * self.size.steps, self.out.address_of()
        took = self.seconds(lambda: self.launch("barriers", address, 0, steps, 1))
        self.expect("barriers", self.out.read(1, np.uint64), np.array([steps], np.uint64))
        return [1e9 * s / steps for s in took]

    def calls(self) -> list[float]:
        """Microseconds from a launch until the host knows of its end, by the clock."""
        self.out.buffer.resize(8 * self.blocks)
        address, found = self.out.address_of(), []
        for _ in range(self.size.calls):
            began = time.perf_counter()
            self.launch("barriers", address, 0, 0, 1)
            self.stream.finish()
            found.append(1e6 * (time.perf_counter() - began))
        return found[len(found) // 4 :]

    def copies(self, to_device: bool) -> list[float]:
        """Bytes a second between page-locked memory and the device."""
        from arcbeam.gpu._memory import PinnedBuffer

        size, host = self.size.copy_bytes, PinnedBuffer(self.context)
        host.resize(size)
        memory = DeviceMemory()
        memory.buffer.resize(size)
        values = np.frombuffer(host, np.uint8)
        values[:] = np.resize(np.arange(256, dtype=np.uint8), size)
        self.stream, former = memory.stream, self.stream
        try:
            host.send(memory.buffer, size)
            memory.stream.finish()
            if not to_device:
                values[:] = 0
            move = host.send if to_device else host.receive
            took = self.seconds(lambda: move(memory.buffer, size))
        finally:
            self.stream = former
        back = memory.read(256, np.uint8) if to_device else values[:256]
        self.expect("copies", back, np.arange(256, dtype=np.uint8)[: len(back)])
        del values
        return [size / s for s in took]


@dataclass(frozen=True)
class Reads:
    """What reading the hot columns of a graph at random can do at most."""

    hot_bytes: int
    fits_l2: bool
    a_second: float  # independent reads of 16 bytes
    nanoseconds: float  # of one that needs the one before

    def share(self, arcs: float, seconds: float) -> Row:
        """What ``SETTLED`` shows of a search: arcs settled, in G a second, and that over the reads a second."""
        return {"settled": arcs / seconds / 1e9, "share": arcs / seconds / self.a_second}


# Of every row about a search on a GPU; arcs settled are those that leave the surviving tokens, see `gpu_arcs`.
SETTLED = (Column("arcs settled, G/s", "settled", "{:.1f}"), Column("of the reads", "share", "{:.3f}"))


def reads_of(graph: Any, repeats: int) -> Reads:
    """Random reads of L2 if the arcs of a graph fit there, else of the device's memory."""
    hot = graph.states.nbytes + graph.targets.nbytes + graph.columns.nbytes
    ceilings = Ceilings(repeats=repeats)
    fits = hot - graph.states.nbytes < ceilings.properties["l2_bytes"]
    rate, latency = ceilings.reads(ceilings.size.l2_entries if fits else ceilings.size.hbm_entries)
    return Reads(hot, fits, statistics.median(rate), statistics.median(latency))


def reads_if_any(graph: Any, context: Context) -> Reads | None:
    """The same; None, and a line that says why, where there is no GPU, no nvcc, or no memory for a table."""
    try:
        require()
        return reads_of(graph, context.repeats)
    except (ImportError, OSError, MemoryError, RuntimeError, subprocess.CalledProcessError, Wrong) as error:
        context.progress(f"ceilings are not measured: {error}")
        return None


def copies_of(repeats: int) -> float:
    """Bytes a second from page-locked memory to the device."""
    return statistics.median(Ceilings(repeats=repeats).copies(True))


def rows(ceilings: Ceilings) -> list[Row]:
    """Every ceiling: what, figure, smallest and largest, unit."""
    found: list[tuple[str, list[float], float, str]] = []
    for where, entries in (("HBM", ceilings.size.hbm_entries), ("L2", ceilings.size.l2_entries)):
        rate, latency = ceilings.reads(entries)
        found.append((f"random 16-byte reads, {where} ({16 * entries >> 20:,} MiB)", rate, 1e-9, "G/s"))
        found.append((f"a 16-byte read after the other, {where}", latency, 1.0, "ns"))
    found.append(("64-bit atomic minima, L2", ceilings.global_minima(), 1e-9, "G/s"))
    found.append(("64-bit atomic minima, shared memory", ceilings.shared_minima(), 1e-9, "G/s"))
    found.append(("pinned copy to the device", ceilings.copies(True), 1e-9, "GB/s"))
    found.append(("pinned copy from the device", ceilings.copies(False), 1e-9, "GB/s"))
    found.append((f"barrier of {ceilings.size.threads} threads", ceilings.barriers(), 1.0, "ns"))
    found.append(("launch until the host knows of its end", ceilings.calls(), 1.0, "us"))
    return [
        {"what": what, "value": scale * statistics.median(each), "spread": [scale * min(each), scale * max(each)],
         "unit": unit}
        for what, each, scale, unit in found
    ]  # fmt: skip
