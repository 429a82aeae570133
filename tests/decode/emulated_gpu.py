"""A GPU for tests of the whole decoder: the fake driver of tests/cuda_host, whose launches run in the emulator."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from arcbeam.gpu.tuned import search_plan
from tests.cuda_host import emulated_gpu
from tests.cuda_host.emulated_gpu import Entry
from tests.simt.build import ROOT

SOURCES = {
    path.stem: path
    for folder in ("decode", "rescore")
    for path in sorted((ROOT / "cuda" / folder).glob("kernels/*.cu"))
}
_TEXTS = {name: path.read_text() for name, path in SOURCES.items()}
SHAPES = {name: tuple(re.findall(rf"\(arcbeam_{name}_(\w+),", text)) for name, text in _TEXTS.items()}
PARAMETER_BYTES = {
    name: 216 if "SearchParams" in text else 616 if "WithNewWords" in text else 584 for name, text in _TEXTS.items()
}

LOG_SOFTMAX = "arcbeam_log_softmax"  # runs before a search of logits

# Frames and logs that fit nowhere: everything grows, and is redone.
TIGHT = search_plan.Room(
    spill_states=8, log_entries=64, links=8, lattice_bytes=1, path_entries=1, window_bytes=1 << 20, shared_states=8
)


@dataclass(frozen=True)
class Shape:
    """How searches are launched: the kernel, the number of lanes, the threads of a block.

    From `team_tokens` a frame on a cluster of so many blocks works as one. Searches of at least `hot_tokens` a frame go
    on in clusters of two blocks, once at most `hot_lanes` are left. One warp decodes frames of up to `small_frame`
    tokens.
    """

    kernel: str = "wide"
    lanes: int = 2
    block: int | None = 64
    cluster: int = 1
    team_tokens: int = 0
    hot_tokens: int = 0
    hot_lanes: int = 0
    small_frame: int = 0


class EmulatedGpu(emulated_gpu.EmulatedGpu):
    """Beside what its base has:

    Attributes
    ----------
    searches : list of str
        The key in `SOURCES` of each launch's kernel.
    launched : list of (str, int)
        Kernel and cluster of each.
    shapes : list of (int, int, int)
        Blocks, threads and bytes of shared memory of each.
    """

    entries: ClassVar = {
        f"arcbeam_{name}_{shape}": Entry(str(source), PARAMETER_BYTES[name])
        for name, source in SOURCES.items()
        for shape in SHAPES[name]
    } | {LOG_SOFTMAX: Entry(str(ROOT / "cuda" / "arrays" / "log_softmax.cu"), 32)}

    def __init__(self, fake: Any, monkeypatch: Any) -> None:
        super().__init__(fake, monkeypatch)
        # A launch runs when it is made: what has not come by then comes too late for it, however long it waits.
        monkeypatch.setattr(search_plan, "WAIT_CYCLES", 1000)

    @property
    def searches(self) -> list[str]:
        return [name.removeprefix("arcbeam_").rpartition("_")[0] for name, _ in self._of_searches()]

    @property
    def launched(self) -> list[tuple[str, int]]:
        return [(name.rpartition("_")[2], shape.cluster) for name, shape in self._of_searches()]

    @property
    def shapes(self) -> list[tuple[int, int, int]]:
        return [(shape.blocks, shape.threads, shape.shared_bytes) for _, shape in self._of_searches()]

    def _of_searches(self) -> list[tuple[str, emulated_gpu.LaunchShape]]:
        """The launches of searches."""
        return [launch for launch in self.launches if launch[0] != LOG_SOFTMAX]

    def begin_with(self, room: search_plan.Room) -> None:
        """Decoders made from now on begin with this room."""
        self.plan(first_room=lambda max_active: room)

    def send_in_parts(self, first: int = 256, largest: int = 1024, pieces: int = 512) -> None:
        """Log-probs of the host go in parts of so few bytes that a launch sees the first one alone."""
        self.plan(FIRST_PART_BYTES=first, LARGEST_PART_BYTES=largest, PIECES_BYTES=pieces, ALONE_BYTES=first // 2)

    def launch_as(self, shape: search_plan.LaunchShape) -> None:
        self.plan(launch_shapes=lambda *_: (shape,))

    def take(self, shape: Shape) -> None:
        """Decoders made from now on launch searches like this."""
        self.threads = shape.block
        self.fake.library.fake_size(0, 1, shape.lanes)
        self.launch_as(search_plan.LaunchShape(shape.kernel, shape.block or 512, 1, shape.cluster))
        hot = search_plan.LaunchShape("cluster", shape.block or 512, 1, 2)
        for of in ("", "RESCORING_"):
            self.plan(**{
                f"{of}CLUSTER": hot, f"{of}TEAM_TOKENS": shape.team_tokens, f"{of}HOT_LANES": shape.hot_lanes,
                f"{of}HOT_TOKENS": shape.hot_tokens,
            })  # fmt: skip
        self.plan(HOT_AMONG_MANY=shape.hot_tokens, SMALL_FRAME=shape.small_frame, HOT_FRAMES=0)

    def plan(self, **figures: Any) -> None:
        """Changes figures of `arcbeam.gpu.tuned.search_plan`."""
        for name, figure in figures.items():
            self.monkeypatch.setattr(search_plan, name, figure)


@contextmanager
def scheduled(
    schedule: dict[str, Any] | None = None, *, room: search_plan.Room | None = None, shape: Shape | None = None,
    **figures: Any,
) -> Iterator[EmulatedGpu]:  # fmt: skip
    """A GPU for one schedule, with races and accesses out of bounds detected.

    figures : of `arcbeam.gpu.tuned.search_plan`
    """
    with EmulatedGpu.there(schedule=schedule or {}, bounded=True) as gpu:
        gpu.begin_with(room or TIGHT)
        gpu.take(shape or Shape())
        gpu.plan(**figures)
        yield gpu


class DeviceArray:
    """An array that says it is on the GPU: the fake driver's device memory is the host's."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.__cuda_array_interface__ = {
            "data": (array.ctypes.data, True),
            "shape": array.shape,
            "typestr": array.dtype.str,
            "strides": array.strides,
            "version": 3,
        }


def unreadable(fake: Any, array: np.ndarray) -> Iterator[tuple[DeviceArray, str]]:
    """Copies of an array where no kernel of the first of two devices may read, and what is said of each."""
    foreign, short = array.copy(), array.copy()
    fake.lend("memory", foreign.ctypes.data, foreign.nbytes, device=1)
    fake.lend("memory", short.ctypes.data, short.nbytes - 4)
    askew = np.frombuffer(bytes(2) + array.tobytes(), array.dtype, offset=2).reshape(array.shape)
    yield DeviceArray(foreign), "memory of cuda:0, where the decoder is, got an address on cuda:1"
    yield DeviceArray(short), "got 4 bytes outside of it"
    yield DeviceArray(askew), "an address that is a multiple of 4"
    fake.library.fake_host_is_device(0)
    yield DeviceArray(array.copy()), "which the driver does not know: memory of the host"
    fake.library.fake_host_is_device(1)
    fake.library.fake_take_back()  # before others get this memory
