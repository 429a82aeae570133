"""CuPy without a GPU, as far as `benchmarks.adapters.fast_gpu_asr` needs it: NumPy, and kernels in the emulator.

Sources in CUDA C++ are compiled for the emulator by way of ``cuda_on_host.hpp``. A stream that captures keeps the
launches and the products of matrices in a graph instead of running them.
"""

import ctypes
import hashlib
import re
import types

import numpy as np

from tests.simt import build

KINDS = {0: "float32", 14: "bfloat16"}  # by CUDA's numbers of types; the second is known to NumPy with ml_dtypes


class Array(np.ndarray):
    @property
    def data(self):
        return types.SimpleNamespace(ptr=self.ctypes.data)

    def get(self, out, stream, blocking):
        out[...] = self

    def set(self, values, stream):
        self[...] = values


class Graph:
    def __init__(self):
        self.steps, self.launches = [], 0

    def upload(self, stream):
        pass

    def launch(self, stream):
        self.launches += 1
        for step in self.steps:
            step()


class Stream:
    current = None

    def __init__(self, *, non_blocking=False):
        self.ptr, self.graph = 7, None

    def __enter__(self):
        Stream.current = self

    def __exit__(self, *error):
        Stream.current = None

    def synchronize(self):
        assert self.graph is None, "no stream that captures can be waited for"

    def begin_capture(self):
        self.graph = Graph()

    def end_capture(self):
        made, self.graph = self.graph, None
        return made

    @staticmethod
    def run(step):
        """Now, or whenever the graph that is captured runs."""
        graph = Stream.current.graph
        if graph is None:
            step()
        else:
            graph.steps.append(step)


class Device:
    attributes = types.MappingProxyType({"MaxSharedMemoryPerBlockOptin": 227 * 1024, "MultiProcessorCount": 132})

    def __enter__(self):
        pass

    def __exit__(self, *error):
        pass


class RawKernel:
    def __init__(self, source, name, options, backend):
        assert backend == "nvcc"
        self.source, self.name = source, name

    def __call__(self, grid, block, arguments, shared_mem=0, stream=None):
        assert stream in (None, Stream.current)
        kernels, names = emulated(self.source, self.name)
        # A scalar stands for the address of an array that the caller keeps, or is a number.
        given = dict(zip(names, [np.asarray(one) if isinstance(one, Array) else one for one in arguments], strict=True))
        Stream.run(
            lambda: kernels.launch(
                f"run_{self.name}",
                build.kernel_params(**given),
                grid=grid[0],
                block=block[0],
                resident=1,
                shared_bytes=shared_mem,
                detect_races=False,
            )
        )


def emulated(source, name):
    """The kernels of a CUDA source, of which one can be launched, and the names of its parameters."""
    text = re.sub(r"#include <(cuda_bf16.h|cuda_fp16.h|math_constants.h)>", "", source)
    text = re.sub(r'extern "C" __global__ ', "static ", text)
    text = re.sub(r"extern __shared__ ([\w ]+?) (\w+)\[\];", r"\1* \2 = (\1*)::arcbeam::simt::shared_memory();", text)
    parameters = [one.strip() for one in re.search(rf"static void {name}\((.*?)\)", text, re.DOTALL)[1].split(",")]
    names = [re.search(r"\w+$", one)[0] for one in parameters]
    members, arguments = "".join(f"{one}; " for one in parameters), ", ".join(f"params.{one}" for one in names)
    entry = (
        f"struct {name}_params {{ {members}}};\n"
        f"ARCBEAM_KERNEL(run_{name}, 1024, {name}_params) {{ {name}({arguments}); }}\n"
    )
    text = f'#include "{build.ROOT}/tests/benchmarks/cuda_on_host.hpp"\n{text}\n{entry}'
    path = build.CACHE / "cuda_on_host" / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.cu"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return build.load(path, flags=("-w", "-fno-gnu-unique")), names


def values_at(address, shape, kind):
    """The array at an address."""
    dtype = np.dtype(kind)
    memory = (ctypes.c_char * (dtype.itemsize * int(np.prod(shape)))).from_address(address)
    return np.frombuffer(memory, dtype).reshape(shape)


def product_of(a, b):
    """b times the transpose of a, with sums in float32."""
    return b.astype(np.float32) @ a.astype(np.float32).T


class Cublas:
    """The library, as `benchmarks.adapters.cublas_engine.Cublas` calls it by ctypes."""

    def __init__(self):
        self.stream = self.workspace = None

    def cublasCreate_v2(self, handle):
        handle._obj.value = 11
        return 0

    def cublasDestroy_v2(self, handle):
        return 0

    def cublasSetStream_v2(self, handle, stream):
        self.stream, self.workspace = stream.value, None
        return 0

    def cublasSetWorkspace_v2(self, handle, address, size):
        self.workspace = address.value
        return 0

    def cublasGemmEx(
        self, handle, transa, transb, m, n, k, alpha, a, a_kind, lda, b, b_kind, ldb, beta, c, c_kind, ldc, compute, by
    ):
        """Of matrices without gaps, column by column: the first transposed, the second not."""
        if (transa, transb, lda, ldb, ldc, c_kind, compute, by) != (1, 0, k, k, m, 0, 68, -1):
            return 7
        assert handle.value == 11 and self.stream == Stream.current.ptr and self.workspace
        scale, kept, kinds = alpha._obj.value, beta._obj.value, (KINDS[a_kind], KINDS[b_kind])

        def step():
            product = product_of(values_at(a.value, (m, k), kinds[0]), values_at(b.value, (n, k), kinds[1]))
            sums = values_at(c.value, (n, m), np.float32)
            sums[...] = scale * product + (kept * sums if kept else 0)

        Stream.run(step)
        return 0


def _array(values, dtype=None):
    return np.array(values, dtype).view(Array)


runtime = types.SimpleNamespace(CUDARuntimeError=type("CUDARuntimeError", (Exception,), {}))
cuda = types.SimpleNamespace(
    Device=Device, Stream=Stream, get_current_stream=lambda: Stream.current,
    runtime=runtime,
    driver=types.SimpleNamespace(CUDADriverError=type("CUDADriverError", (Exception,), {})),
)  # fmt: skip


def modules():
    """``cupy`` and ``cupyx``, for ``sys.modules``."""
    cupy, cupyx = types.ModuleType("cupy"), types.ModuleType("cupyx")
    vars(cupy).update(
        ndarray=Array, dtype=np.dtype, RawKernel=RawKernel, cuda=cuda, array=_array, asarray=_array,
        empty=lambda shape, dtype: np.full(shape, 99, dtype).view(Array),
        empty_like=lambda one: np.full_like(one, 99).view(Array),
    )  # fmt: skip
    cupyx.empty_pinned = lambda shape, dtype: np.empty(shape, dtype)
    return {"cupy": cupy, "cupyx": cupyx}
