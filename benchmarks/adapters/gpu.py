"""What experiments on a GPU share: log-probs on the device, the twin's answers, and processes that may die.

Log-probs lie on the device in memory of arcbeam's own, which every library can read; so all contenders read the
same bytes. Times are of the clock around calls that return when their words are on the host, unless an experiment says
that it used events.
"""

import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import arcbeam
from arcbeam.gpu.devices import why_no_cuda
from benchmarks.adapters import SearchOptions, Unavailable
from benchmarks.data.datasets import Dataset
from benchmarks.harness import seeds
from benchmarks.harness.registry import Row

WIDE, NARROW = SearchOptions(17.0, 10_000, lattice_beam=8.0), SearchOptions(12.0, 5_000, lattice_beam=4.0)
BEAMS = (WIDE, NARROW)
WORKLOADS = (("spm512-3gram", "workload-512"), ("char-3gram", "throughput"))
LIMIT_S = 400  # of one child


def beam_text(options: SearchOptions) -> str:
    return f"{options.beam:g} / {options.max_active:,}"


def require() -> None:
    """Raises Unavailable, with the reason, where arcbeam cannot decode on a GPU."""
    reason = why_no_cuda()
    if reason:
        raise Unavailable(reason)


class DeviceArray:
    """Log-probs of one utterance or several on the GPU, C-contiguous; the memory lives with them."""

    def __init__(self, memory: Any, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.memory = memory
        self.shape = shape
        self.__cuda_array_interface__ = {
            "data": (memory.address_of() + offset if shape[0] else 0, False),
            "shape": shape,
            "typestr": dtype.str,
            "strides": None,
            "version": 3,
        }


class DeviceMemory:
    """One piece of device memory."""

    def __init__(self, ordinal: int = 0) -> None:
        from arcbeam.gpu import _cuda
        from arcbeam.gpu._launch import Stream
        from arcbeam.gpu._memory import DeviceBuffer, MemoryPool

        self.context = _cuda.context_of(ordinal)
        self.stream = Stream(self.context)
        self.buffer = DeviceBuffer(MemoryPool(self.context), self.stream, "log-probs of a benchmark")

    def write(self, values: npt.NDArray[Any], offset: int = 0) -> None:
        self.buffer.write(np.ascontiguousarray(values).reshape(-1).view(np.uint8), offset)

    def read(self, count: int, dtype: Any) -> npt.NDArray[Any]:
        return np.frombuffer(self.buffer.read(count * np.dtype(dtype).itemsize), dtype)

    def address_of(self) -> int:
        return int(self.buffer.address)


def send(utterances: Sequence[npt.NDArray[np.floating]], dtype: Any = np.float32) -> list[DeviceArray]:
    """The utterances side by side on the GPU, each at a multiple of 256 bytes."""
    kind = np.dtype(dtype)
    sizes = [-(-u.size * kind.itemsize // 256) * 256 for u in utterances]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(int).tolist()
    packed = np.zeros(max(offsets[-1], 256), np.uint8)
    for u, offset in zip(utterances, offsets, strict=False):
        packed[offset : offset + u.size * kind.itemsize] = np.ascontiguousarray(u, kind).reshape(-1).view(np.uint8)
    memory = DeviceMemory()
    memory.write(packed)
    return [DeviceArray(memory, offset, u.shape, kind) for u, offset in zip(utterances, offsets, strict=False)]


def cycled(dataset: Dataset, count: int) -> Dataset:
    """So many utterances: the first ones, or all of them over and over."""
    if count <= len(dataset.ids):
        return dataset.first(count)
    turns = -(-count // len(dataset.ids))
    return Dataset(
        dataset.name, np.tile(dataset.log_probs, (turns, 1)), np.tile(dataset.lengths, turns), dataset.ids * turns,
        dataset.references * turns, dataset.frame_shift, dataset.tokens,
    ).first(count)  # fmt: skip


def decoder(graph: "arcbeam.Graph", options: SearchOptions, device: str = "cuda", **more: Any) -> "arcbeam.CtcDecoder":
    return arcbeam.CtcDecoder(
        graph, beam=options.beam, max_active=options.max_active, acoustic_scale=options.acoustic_scale, device=device,
        **more,
    )  # fmt: skip


class Wrong(AssertionError):
    """The answers are not the twin's: nothing is timed."""


def check(
    found: Sequence[Any], graph: "arcbeam.Graph", options: SearchOptions, utterances: Sequence[Any], **more: Any
) -> None:
    """Raises Wrong unless the hypotheses are the CPU twin's, byte for byte: paths, scores, ends.

    utterances : log-probs on the host, float32 or float16
    more : further options of the decoder
    """
    twin = decoder(graph, options, device="cpu", threads=len(os.sched_getaffinity(0)), **more)
    compare(found, twin.decode([np.ascontiguousarray(u) for u in utterances]))


def compare(found: Sequence[Any], wanted: Sequence[Any]) -> None:
    """Raises Wrong unless both are the same hypotheses, byte for byte: paths, scores, ends."""
    if len(found) != len(wanted):
        raise Wrong(f"expected {len(wanted)} answers, got {len(found)}")
    for i, (one, other) in enumerate(zip(found, wanted, strict=True)):
        if one.arcs.tobytes() != other.arcs.tobytes():
            raise Wrong(f"utterance {i}: the path differs from the twin's: {one.text!r}, expected {other.text!r}")
        ends = [(np.float64([h.score, h.partial_score]).tobytes(), h.reached_final) for h in (one, other)]
        if ends[0] != ends[1]:
            raise Wrong(f"utterance {i}: score {one.score!r}, expected {other.score!r}; or its end differs")


# Processes that may die


class ChildFailed(RuntimeError):
    """A child process ended without an answer; the message has its last words."""


def _work(pipe: Any, function: Callable[..., Iterator[Row]], arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # its parent's handler is not for a child
    try:
        for row in function(*arguments):
            pipe.send(("row", row))
        pipe.send(("end", seeds.taken()))
    except BaseException as error:
        pipe.send(("failed", f"{type(error).__name__}: {error}\n{traceback.format_exc()}"))
    finally:
        pipe.close()
    os._exit(0)  # whatever a peer's threads think of it


def isolated(function: Callable[..., Iterator[Row]], *arguments: Any, limit_s: float = LIMIT_S) -> Iterator[Row]:
    """Rows of a function that runs in a forked child, for it may crash, hang, or keep a device's memory.

    This process must not have used CUDA. Raises ChildFailed when the child raises, dies, or takes longer than the
    limit between two rows.
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_work, args=(theirs, function, arguments))
    child.start()
    theirs.close()
    patience = 0.0
    try:
        while True:
            if not ours.poll(limit_s):
                raise ChildFailed(f"nothing came for {limit_s:g} s")
            try:
                kind, value = ours.recv()
            except EOFError:
                child.join(10)
                raise ChildFailed(f"the process ended with {child.exitcode}") from None
            if kind == "end":
                patience = 10.0
                seeds.again(value)
                return
            if kind == "failed":
                raise ChildFailed(value)
            yield value
    finally:
        child.join(patience)
        if child.is_alive():
            child.kill()
            child.join()
        ours.close()


def rows_or_failure(what: Row, function: Callable[..., Iterator[Row]], *arguments: Any) -> Iterator[Row]:
    """Rows of :func:`isolated`; where it fails, a row that says so, for the other rows are worth having.

    what : what the row is about
    """
    try:
        yield from isolated(function, *arguments)
    except ChildFailed as error:
        print(f"  {error}", file=sys.stderr, flush=True)
        yield what | {"status": f"failed: {str(error).splitlines()[0]}"}
