"""A GPU for tests of the transducer engine: the fake driver of tests/cuda_host, whose launches run in the emulator."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from arcbeam import CudaError, TransducerDecoder
from arcbeam.gpu.tuned import transducer_plan
from tests.cuda_host import emulated_gpu
from tests.cuda_host.emulated_gpu import Entry

PLAIN, FUSED = "cuda/transducer/transducer.cu", "cuda/transducer/transducer_fused.cu"
BEAM, FUSED_BEAM = "cuda/transducer/transducer_beam.cu", "cuda/transducer/transducer_beam_fused.cu"
LATTICE_BEAM = "cuda/transducer/transducer_beam_lattice.cu"
KERNELS = {"project": (PLAIN, 544), "kept": (PLAIN, 736), "many": (PLAIN, 736)}
KERNELS |= {"kept_fused": (FUSED, 792), "many_fused": (FUSED, 792)}
KERNELS |= {"kept_beam": (BEAM, 1352), "many_beam": (BEAM, 1352)}
KERNELS |= {"kept_fused_beam": (FUSED_BEAM, 1392), "many_fused_beam": (FUSED_BEAM, 1392)}
KERNELS |= {"kept_lattice_beam": (LATTICE_BEAM, 1512), "many_lattice_beam": (LATTICE_BEAM, 1512)}
PROJECTED_AT = 520  # in the parameters of "project", the address of what it writes


@dataclass(frozen=True)
class Shape:
    """How the loop over labels is launched, see `arcbeam.gpu.tuned.transducer_plan.LoopShape`; and the tokens of an
    utterance for which there is room at first."""

    kernel: str = "kept"
    blocks: int = 3
    threads: int = 64
    most_tests: int = 16
    first_window: int = 4
    widest_window: int = 16
    room: int = 2
    teams: int = 1
    joins_alone: bool = False


class EmulatedGpu(emulated_gpu.EmulatedGpu):
    """Beside what its base has:

    Attributes
    ----------
    ran : list of (str, int, int, int)
        The kernel, the blocks, the threads and whether it was cooperative, of each launch.
    """

    entries: ClassVar = {
        f"arcbeam_transducer_{name}_{precision}": Entry(*entry)
        for name, entry in KERNELS.items()
        for precision in ("float32", "bfloat16")
    }

    def __init__(self, fake: Any, monkeypatch: Any) -> None:
        super().__init__(fake, monkeypatch)
        self.plan(blocks=lambda multiprocessors: 3, PATIENCE_CYCLES=100_000)

    @property
    def ran(self) -> list[tuple[str, int, int, int]]:
        return [
            (name.removeprefix("arcbeam_transducer_").rpartition("_")[0], one.blocks, one.threads, one.cooperative)
            for name, one in self.launches
        ]

    def plan(self, **figures: Any) -> None:
        """Changes figures of `arcbeam.gpu.tuned.transducer_plan`."""
        for name, figure in figures.items():
            self.monkeypatch.setattr(transducer_plan, name, figure)

    def take(self, shape: Shape) -> None:
        """Decoders made from now on launch the loop like this."""
        loop = transducer_plan.LoopShape(
            shape.kernel, shape.threads, shape.most_tests, shape.first_window, shape.widest_window, shape.teams,
            shape.joins_alone,
        )  # fmt: skip
        self.threads = None
        self.plan(
            loop_shapes=lambda *_: (loop,), beam_shapes=lambda *_: (loop,),
            blocks=lambda multiprocessors: shape.blocks, PROJECT_THREADS=64,
            first_room=lambda frames: shape.room,
        )  # fmt: skip

    def keep_projected(self, rows: int, columns: int) -> list[np.ndarray]:
        """From now on each kernel that projects so many frames adds to this list what it has written."""
        kept: list[np.ndarray] = []

        def beside(kernels: Any, name: str, parameters: Any) -> None:
            address = ctypes.c_uint64.from_buffer(parameters, PROJECTED_AT).value
            stride = -(-columns // 32) * 32
            whole = np.frombuffer((ctypes.c_float * (rows * stride)).from_address(address), np.float32)
            read = lambda: kept.append(whole.reshape(rows, stride)[:, :columns].copy())  # noqa: E731
            self.after = read if "project" in name else lambda: None

        self.beside = beside
        return kept


@contextmanager
def scheduled(
    schedule: dict[str, Any] | None = None, shape: Shape | None = None, **figures: Any
) -> Iterator[EmulatedGpu]:
    """A GPU for one schedule, with races and accesses out of bounds detected.

    figures : of `arcbeam.gpu.tuned.transducer_plan`
    """
    with EmulatedGpu.there(schedule=schedule or {}, bounded=True) as gpu:
        gpu.take(shape or Shape())
        gpu.plan(**{"PATIENCE_CYCLES": 10**7} | figures)
        yield gpu


def check_interrupted(
    arrays: Any, decode: Callable[[Any], Any], shape: Shape, used: bool = False, figures: Any = None, **options: Any
) -> None:
    """The host ends a launch: what was there before is not a result, and the decoder goes on with the wanted bytes.

    decode : what a decoder makes of a batch, as bytes
    used : the decoder has decoded before, and these bytes are wanted; otherwise those of the CPU
    """
    with scheduled(shape=shape, **figures or {}) as gpu:
        decoder = TransducerDecoder.from_arrays(arrays, device="cuda", **options)
        wanted = decode(decoder if used else TransducerDecoder.from_arrays(arrays, device="cpu", **options))
        gpu.send_while_kernels_run([0])
        with gpu.interrupted(), pytest.raises(KeyboardInterrupt):
            decode(decoder)
        assert decode(decoder) == wanted
        del decoder


def check_blocks_apart(arrays: Any, decode: Callable[[Any], Any], shape: Shape, patience: int, **options: Any) -> None:
    """A block alone waits at the barrier, gives up and says so; those that come later leave at once."""
    wanted = decode(TransducerDecoder.from_arrays(arrays, device="cpu", **options))
    with scheduled(shape=shape, PATIENCE_CYCLES=patience) as gpu:
        decoder = TransducerDecoder.from_arrays(arrays, device="cuda", **options)
        gpu.schedule["resident"] = 1
        said = "the 3 blocks of a transducer kernel on cuda:0 have not run at the same time"
        with pytest.raises(CudaError, match=said):
            decode(decoder)
        gpu.schedule["resident"] = 0
        assert decode(decoder) == wanted
        del decoder
