"""A GPU for tests of the transducer engine: the fake driver of tests/cuda_host, whose launches run in the emulator."""

import ctypes
from collections.abc import Callable
from typing import Any

from arcbeam.gpu import kernel_images
from arcbeam.gpu.kernel_images import BuildRecord
from arcbeam.gpu.tuned import transducer_plan
from tests.simt import build

BYTES = {
    "project": 544,
    "kept": 736,
    "many": 736,
    "kept_fused": 792,
    "many_fused": 792,
}  # of their parameters; loop_host.py spells them out
IMAGE = "".join(
    f"kernel arcbeam_transducer_{name}_{precision} {size}\n"
    for name, size in BYTES.items()
    for precision in ("float32", "bfloat16")
)


class Shape(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("blocks", "threads", "cluster", "shared_bytes", "cooperative")]


class EmulatedGpu:
    """Launches go to the emulator, in blocks of 64 threads whatever the launch says: no byte depends on it.

    threads : threads of a block; None for those of the launch
    """

    def __init__(self, fake: Any, monkeypatch: Any) -> None:
        self.fake = fake
        self.kernels = build.load("cuda/transducer/transducer.cu")
        self.fused_kernels = build.load("cuda/transducer/transducer_fused.cu")
        self.threads: int | None = 64
        self.seed = 0
        self.resident = 0
        self.after_loop: Callable[[], None] = lambda: None
        self.errors: list[BaseException] = []
        self.launches: list[tuple[str, int, int, int]] = []
        kind = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.POINTER(Shape), ctypes.c_void_p)
        self.callback = kind(self._launch)
        record = BuildRecord(
            nvcc="13.0.88",
            architectures=("9.0",),
            ptx="9.0",
            kernels={"search": "", "transducer": "", "transducer_fused": ""},
        )
        monkeypatch.setattr(kernel_images, "build_record", lambda: record)
        monkeypatch.setattr(kernel_images, "image", lambda name: f"arch 9.0\n{IMAGE}".encode() + b"\0")
        monkeypatch.setattr(transducer_plan, "blocks", lambda multiprocessors: 3)
        monkeypatch.setattr(transducer_plan, "PATIENCE_CYCLES", 100_000)
        self.start()

    def start(self, devices: int = 1, memory: int = 1 << 30) -> None:
        self.fake.start(devices, memory)
        self.fake.on_launch(self.callback)
        self.fake.library.fake_host_is_device(1)  # as arrays of tests say of theirs

    def _launch(self, name: bytes, shape: Any, parameter: int) -> None:
        try:
            self.seed += 1
            one, kernel = shape.contents, name.decode()
            kind = kernel.removeprefix("arcbeam_transducer_").rsplit("_", 1)[0]
            self.launches.append((kind, one.blocks, one.threads, one.cooperative))
            params = (ctypes.c_char * BYTES[kind]).from_address(parameter)
            kernels = self.fused_kernels if kind.endswith("fused") else self.kernels
            kernels.launch(
                kernel, params, grid=one.blocks, block=self.threads or one.threads, shared_bytes=one.shared_bytes,
                seed=self.seed, detect_races=False, resident=self.resident,
            )  # fmt: skip
            if kind != "project":
                self.after_loop()
        except BaseException as error:
            self.errors.append(error)
