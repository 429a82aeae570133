"""A GPU that is none: the fake driver, whose launches run in the emulator of tests/simt."""

import ctypes
import gc
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

import numpy as np
import pytest

from arcbeam.gpu import kernel_images
from arcbeam.gpu.kernel_images import BuildRecord
from tests.cuda_host.conftest import fake_driver
from tests.simt import build

LAUNCH_FAILED = 719
MOST_LAUNCHES = 3000  # of a decoder that never ends


class LaunchShape(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("blocks", "threads", "cluster", "shared_bytes", "cooperative")]


LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(LaunchShape), ctypes.c_void_p)


class Entry(NamedTuple):
    """A kernel: its source, and the bytes of its parameters."""

    source: str
    parameter_bytes: int


class EmulatedGpu:
    """Launches go to the emulator, in blocks of 64 threads whatever the launch says: no byte depends on it.

    Attributes
    ----------
    threads : int or None
        Threads of a block; None for those of the launch.
    schedule : dict
        How launches run: arguments of `tests.simt.build.Kernels.launch`. The seed that is here is that of the first.
    bounded : bool
        Whether kernels may touch no other memory than the driver's.
    arrivals : list of int
        After how many scheduling points of a launch the parts arrive that the host sends meanwhile. If there are any,
        kernels run when the host waits for them, so that it sends meanwhile.
    sources_beside : sequence of path
        Code of the host that is compiled together with the kernels.
    beside : callable, optional
        Called before a launch with its kernels, its name and its parameters; gives the `host` of `Kernels.launch`.
    after : callable
        Called after each launch.
    errors : list
        What launches have raised. The driver then says that the launch has failed.
    """

    entries: Mapping[str, Entry] = {}

    def __init__(self, fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fake, self.monkeypatch = fake, monkeypatch
        self.threads: int | None = 64
        self.schedule: dict[str, Any] = {"detect_races": False}
        self.bounded = False
        self.arrivals: list[int] = []
        self.sources_beside: tuple[Any, ...] = ()
        self.beside: Callable[..., Any] = lambda kernels, name, parameters: None
        self.after: Callable[[], None] = lambda: None
        self.errors: list[BaseException] = []
        self.launches: list[tuple[str, LaunchShape]] = []
        self.callback = LAUNCH(self._launch)
        record = BuildRecord(
            nvcc="13.0.88", architectures=("9.0",), ptx="9.0", kernels=dict.fromkeys(self.modules(), "")
        )
        monkeypatch.setattr(kernel_images, "build_record", lambda: record)
        self.compiled_for("arch 9.0")
        self.start()

    @classmethod
    def modules(cls) -> list[str]:
        """The names of the files that kernels are compiled to."""
        return [entry.source.rpartition("/")[2].removesuffix(".cu") for entry in cls.entries.values()]

    def start(self, devices: int = 1, memory: int = 1 << 30) -> None:
        self.fake.start(devices, memory)
        self.fake.on_launch(self.callback)
        self.fake.library.fake_host_is_device(1)  # as arrays of tests say of theirs

    def compiled_for(self, *code: str) -> None:
        """Kernels loaded from now on are this code: ``"arch 9.0"``, ``"ptx 8.0"``."""
        self.monkeypatch.setattr(kernel_images, "image", lambda name: self.image(name, *code))

    @classmethod
    def image(cls, module: str, *code: str) -> bytes:
        """The kernels of a file as the fake driver reads them; `code`: lines on what they were compiled for."""
        lines = [
            f"kernel {name} {entry.parameter_bytes}"
            for (name, entry), of in zip(cls.entries.items(), cls.modules(), strict=True)
            if of == module
        ]
        return "\n".join([*(code or ("arch 9.0",)), *lines, ""]).encode() + b"\0"

    def send_while_kernels_run(self, arrivals: list[int]) -> None:
        """The parts that the host sends while a kernel runs arrive after so many scheduling points."""
        self.arrivals = arrivals
        self.fake.library.fake_put_off()

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

    def _copies(self) -> list[build.Copy]:
        """Of each part its data and a word that counts it."""
        found = []
        for number, (to, source, size) in enumerate(self.fake.beside()):
            step = self.arrivals[min(number // 2, len(self.arrivals) - 1)]
            arrays = (np.frombuffer((ctypes.c_ubyte * size).from_address(at), np.uint8) for at in (to, source))
            found.append(build.Copy(step, *arrays, "released_word" if size == 4 else "bytes"))
        return found

    def _launch(self, name: bytes, shape: Any, parameter: int) -> int:
        try:
            one, kernel = LaunchShape.from_buffer_copy(shape.contents), name.decode()
            self.launches.append((kernel, one))
            assert len(self.launches) <= MOST_LAUNCHES, f"no end after {MOST_LAUNCHES} launches"
            entry = self.entries[kernel]
            kernels = build.load(entry.source, *self.sources_beside)
            parameters = (ctypes.c_char * entry.parameter_bytes).from_address(parameter)
            seed = self.schedule.get("seed", 0) + len(self.launches) - 1
            kernels.launch(
                kernel, parameters, grid=one.blocks, block=self.threads or one.threads, cluster=one.cluster,
                shared_bytes=one.shared_bytes, memory=self.fake.memory() if self.bounded else (),
                copies=self._copies() if self.arrivals else (), host=self.beside(kernels, kernel, parameters),
                **self.schedule | {"seed": seed},
            )  # fmt: skip
            self.after()
        except BaseException as error:
            self.errors.append(error)
            return LAUNCH_FAILED
        return 0

    def end(self) -> None:
        """What was made on it must be gone, and no launch may have failed."""
        gc.collect()
        if self.errors:
            raise self.errors[0]
        self.fake.check_empty()

    @classmethod
    @contextmanager
    def there(cls, **attributes: Any) -> Iterator[Self]:
        """One device of 1 GiB within it, for which no test function need be given fixtures."""
        with pytest.MonkeyPatch.context() as monkeypatch:
            gc.collect()  # of one that has failed
            gpu = cls(fake_driver(), monkeypatch)
            for name, value in attributes.items():
                setattr(gpu, name, value)
            try:
                yield gpu
            except Exception:  # whose frames hold what was made
                errors, gpu.errors = gpu.errors, []
                if errors:
                    raise errors[0] from None
                raise
            gpu.end()
            gpu.fake.stop()
