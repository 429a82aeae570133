"""Launches of kernels of single stages on the fake driver run in the emulator."""

import ctypes
from contextlib import contextmanager

from arcbeam.kernel_images import BuildRecord
from tests.decode.emulated_gpu import Shape
from tests.simt import build


@contextmanager
def launches(fake_library, monkeypatch, sources, parameter_bytes):
    """Within it the driver has a device; gives the image of the kernels for it, which have their sources by name."""
    errors = []

    def launch(name, shape, parameter):
        try:
            one = shape.contents
            params = (ctypes.c_char * parameter_bytes).from_address(parameter)
            build.load(sources[name.decode()]).launch(
                name.decode(), params, grid=one.blocks, block=one.threads, shared_bytes=one.shared_bytes,
                detect_races=False,
            )  # fmt: skip
        except BaseException as error:
            errors.append(error)

    callback = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.POINTER(Shape), ctypes.c_void_p)(launch)
    record = BuildRecord(nvcc="13.0.88", architectures=("9.0",), ptx="9.0", kernels={})
    monkeypatch.setattr("arcbeam.kernel_images.build_record", lambda: record)
    fake_library.start()
    fake_library.on_launch(callback)
    lines = "".join(f"kernel {kernel} {parameter_bytes}\n" for kernel in sources)
    yield f"arch 9.0\n{lines}".encode() + b"\0"
    assert errors == []
