"""Launches of kernels of the benchmarks on the fake driver run in the emulator."""

import ctypes
from contextlib import contextmanager
from dataclasses import dataclass, field

from arcbeam.gpu.kernel_images import BuildRecord
from tests.decode.emulated_gpu import Shape
from tests.simt import build


@dataclass
class Launches:
    """The image of the kernels for the driver; who was launched; and what must be gone before the driver is."""

    image: bytes
    launched: list[str] = field(default_factory=list)
    kept: list[object] = field(default_factory=list)

    def keep(self, owner):
        """Gives the owner of handles back, which is emptied in the end: pytest holds on to what fixtures give."""
        self.kept.append(owner)
        return owner


@contextmanager
def launches(fake_library, monkeypatch, kernels):
    """Within it the driver has a device.

    kernels : by name their sources and the bytes of their parameters
    """
    errors = []

    def launch(name, shape, parameter):
        try:
            one, (source, size) = shape.contents, kernels[name.decode()]
            found.launched.append(name.decode())
            params = (ctypes.c_char * size).from_address(parameter)
            build.load(source).launch(
                name.decode(), params, grid=one.blocks, block=one.threads, shared_bytes=one.shared_bytes,
                detect_races=False, seed=len(found.launched),
            )  # fmt: skip
        except BaseException as error:
            errors.append(error)

    callback = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.POINTER(Shape), ctypes.c_void_p)(launch)
    record = BuildRecord(nvcc="13.0.88", architectures=("9.0",), ptx="9.0", kernels={})
    monkeypatch.setattr("arcbeam.gpu.kernel_images.build_record", lambda: record)
    fake_library.start()
    fake_library.on_launch(callback)
    lines = "".join(f"kernel {kernel} {size}\n" for kernel, (_, size) in kernels.items())
    found = Launches(f"arch 9.0\n{lines}".encode() + b"\0")
    yield found
    for owner in found.kept:
        vars(owner).clear()
    assert errors == []
    fake_library.check_empty()
    fake_library.stop()
