"""A GPU as a machine that runs kernels of single stages; nvcc compiles them for it."""

import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.harness import backend
from tests.stages.stage_kernel import KERNEL, ROOT, SOURCE


@cache
def compile_kernels(capability, source):
    """The fatbin of a file of kernels for this compute capability. Raises ImportError without nvcc."""
    cuda_build = backend.load("cuda_build")
    nvcc = cuda_build.find_nvcc()
    if nvcc is None:
        raise ImportError(f"nvcc is missing, which compiles {source.name}")
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "made.fatbin")
        flags = (*cuda_build.NVCC_FLAGS, f"-arch=sm_{capability[0]}{capability[1]}")
        subprocess.run([nvcc, "-fatbin", *flags, str(source), "-o", str(made)], cwd=ROOT, check=True)
        return made.read_bytes()


class Gpu:
    """The machine that kernels of single stages want: memory by name, and a stream."""

    def __init__(self, source=SOURCE, kernel=KERNEL):
        from arcbeam.gpu import _cuda
        from arcbeam.gpu._launch import Module, Stream
        from arcbeam.gpu._memory import MemoryPool

        self.context = _cuda.context_of(0)
        image = compile_kernels(_cuda.device_properties(0)["compute_capability"], source)
        self.function = Module(self.context, "stages", image).function(kernel)
        self.stream, self.pool = Stream(self.context), MemoryPool(self.context)
        self.memory, self.pinned = {}, {}

    def put(self, name, array):
        from arcbeam.gpu._memory import DeviceBuffer

        buffer, _ = self.memory.get(name) or (DeviceBuffer(self.pool, self.stream, name), 0)
        self.memory[name] = buffer, array.nbytes
        buffer.resize(max(1, array.nbytes))
        buffer.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
        return int(buffer.address)

    def put_on_host(self, name, array):
        from arcbeam.gpu._memory import PinnedBuffer

        self.pinned[name] = buffer = PinnedBuffer(self.context)
        buffer.resize(max(1, array.nbytes))
        memory = np.frombuffer(buffer, np.uint8)
        memory[: array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return int(memory.ctypes.data)

    def get(self, name, dtype):
        buffer, size = self.memory[name]
        return np.frombuffer(buffer.read(size), dtype)

    def launch(self, parameter, threads, shared_bytes):
        from arcbeam.gpu._launch import Event, launch_kernel

        launch_kernel(self.function, self.stream, parameter, blocks=1, threads=threads, shared_bytes=shared_bytes)
        end = Event(self.context)
        end.mark(self.stream)
        if not end.reached(60_000):
            raise TimeoutError("the stages did not end within a minute")
