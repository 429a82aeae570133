"""A GPU for tests of the whole engine: the fake driver of tests/cuda_host, whose launches run in the emulator."""

import ctypes
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from arcbeam.gpu import kernel_images
from arcbeam.gpu.kernel_images import BuildRecord
from arcbeam.gpu.tuned import search_plan
from tests.simt import build

SOURCES = {
    "search": "cuda/decode/kernels/search.cu",
    "rescore": "cuda/rescore/kernels/rescore.cu",
    "asking": "cuda/rescore/kernels/asking.cu",
    "asking_arcs": "cuda/rescore/kernels/asking_arcs.cu",
    "bucketed": "cuda/rescore/kernels/bucketed.cu",
    "boosted": "cuda/rescore/kernels/boosted.cu",
    "boosted_rescore": "cuda/rescore/kernels/boosted_rescore.cu",
    "boosted_asking": "cuda/rescore/kernels/boosted_asking.cu",
    "new_words": "cuda/rescore/kernels/new_words.cu",
    "new_words_rescore": "cuda/rescore/kernels/new_words_rescore.cu",
}
SOURCES |= {f"{name}_lattice": source.replace(".cu", "_lattice.cu") for name, source in SOURCES.items()}
SOURCES["search_stream_lattice"] = "cuda/decode/kernels/search_stream_lattice.cu"
# Of their Params; search_host.py, rescore_host.py and boost_host.py spell them out.
OPENED = ("new_words", "boosted_asking")  # the kernels of these read new words
PARAMETER_BYTES = {name: 208 if "search" in name else 608 if name.startswith(OPENED) else 576 for name in SOURCES}
SHAPES = dict.fromkeys(SOURCES, ("wide", "dense", "cluster")) | dict.fromkeys(
    ("asking", "asking_arcs"), ("wide", "dense")
)
SHAPES |= dict.fromkeys(("boosted_rescore", "boosted_asking", "new_words_rescore"), ("wide",))
SHAPES |= {name: ("wide",) for name in SOURCES if name.endswith("_lattice") and not name.startswith("search")}


def image(name: str, code: str = "arch 9.0") -> bytes:
    """The kernels of a source, as the fake driver reads them; `code`: its line on what they were compiled for."""
    kernels = "".join(f"kernel arcbeam_{name}_{shape} {PARAMETER_BYTES[name]}\n" for shape in SHAPES[name])
    return f"{code}\n{kernels}".encode() + b"\0"


# Frames and logs that fit nowhere: everything grows, and is redone.
TIGHT = search_plan.Room(
    spill_states=8, log_entries=64, links=8, lattice_bytes=1, path_entries=1, window_bytes=1 << 20, shared_states=8
)


class Shape(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("blocks", "threads", "cluster", "shared_bytes")]


class EmulatedGpu:
    """Launches go to the emulator, in blocks of 64 threads whatever the launch says: no byte depends on it.

    Attributes
    ----------
    threads : int or None
        Threads of a block; None for those of the launch.
    detect_races : bool
        Whether the emulator reports races of kernels; it does not know what belongs to them in memory.
    searches : list of str
        The key in `SOURCES` of each launch's kernel.
    """

    def __init__(self, fake: Any, monkeypatch: Any) -> None:
        self.fake = fake
        self.monkeypatch = monkeypatch
        self.threads: int | None = 64
        self.detect_races = False
        self.seed = 0
        self.errors: list[BaseException] = []
        self.searches: list[str] = []
        self.launched: list[tuple[str, int]] = []
        self.shapes: list[tuple[int, int, int]] = []
        kind = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.POINTER(Shape), ctypes.c_void_p)
        self.callback = kind(self._launch)
        record = BuildRecord(nvcc="13.0.88", architectures=("9.0",), ptx="9.0", kernels=dict.fromkeys(SOURCES, ""))
        monkeypatch.setattr(kernel_images, "build_record", lambda: record)
        monkeypatch.setattr(kernel_images, "image", image)
        # A launch runs when it is made: what has not come by then comes too late for it, however long it waits.
        monkeypatch.setattr(search_plan, "WAIT_CYCLES", 1000)
        self.start()

    def start(self, devices: int = 1, memory: int = 1 << 30) -> None:
        self.fake.start(devices, memory)
        self.fake.on_launch(self.callback)
        self.fake.library.fake_host_is_device(1)  # as arrays of tests say of theirs

    def begin_with(self, room: search_plan.Room) -> None:
        """Decoders made from now on begin with this room."""
        self.monkeypatch.setattr(search_plan, "first_room", lambda max_active: room)

    def compiled_for(self, *code: str) -> None:
        """Kernels loaded from now on are this code: ``"arch 9.0"``, ``"ptx 8.0"``."""
        self.monkeypatch.setattr(kernel_images, "image", lambda name: image(name, "\n".join(code)))

    def send_in_parts(self, first: int = 256, largest: int = 1024, pieces: int = 512) -> None:
        """Log-probs of the host go in parts of so few bytes that a launch sees the first one alone."""
        self.monkeypatch.setattr(search_plan, "FIRST_PART_BYTES", first)
        self.monkeypatch.setattr(search_plan, "LARGEST_PART_BYTES", largest)
        self.monkeypatch.setattr(search_plan, "PIECES_BYTES", pieces)
        self.monkeypatch.setattr(search_plan, "ALONE_BYTES", first // 2)

    def launch_as(self, shape: search_plan.LaunchShape) -> None:
        self.monkeypatch.setattr(search_plan, "launch_shapes", lambda *_: (shape,))

    @contextmanager
    def interrupted(self) -> Iterator[None]:
        """Nothing that the host waits for comes any more, until Ctrl-C."""

        def interrupt(signum: int, frame: Any) -> None:
            while frame is not None:
                if frame.f_code is EmulatedGpu._launch.__code__:
                    return  # the next signal will do: an exception does not get out of a callback
                frame = frame.f_back
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise KeyboardInterrupt

        former = signal.signal(signal.SIGALRM, interrupt)
        try:
            self.fake.library.fake_not_ready(10**9)
            signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, former)
            self.fake.library.fake_not_ready(0)

    def _launch(self, name: bytes, shape: Any, parameter: int) -> None:
        try:
            self.seed += 1
            one = shape.contents
            self.shapes.append((one.blocks, one.threads, one.shared_bytes))
            search, kernel = name.decode().removeprefix("arcbeam_").rsplit("_", 1)
            self.searches.append(search)
            self.launched.append((kernel, one.cluster))
            params = (ctypes.c_char * PARAMETER_BYTES[search]).from_address(parameter)
            build.load(SOURCES[search]).launch(
                name.decode(), params, grid=one.blocks, block=self.threads or one.threads, cluster=one.cluster,
                shared_bytes=one.shared_bytes, seed=self.seed,
                detect_races=self.detect_races,
            )  # fmt: skip
        except BaseException as error:
            self.errors.append(error)


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
