"""The prediction and joint network of a transducer on cuBLAS, where fast-gpu-asr has a TensorRT engine.

Its search gives an engine the frame, the last label and the LSTM's state of every hypothesis, and takes log-probs of
tokens and durations and the next state (`fast_gpu_asr.export.model.parakeet.decoder.Decoder`). :class:`CublasEngine`
has the methods of an engine and of its execution context that the search calls, and computes the same in seven
launches: four products of matrices by cuBLAS, with sums in float32 and without TF32, and three kernels. The LSTM's
product with the embeddings is a table, which saves the product that an engine makes of it. All of it can be captured
in a CUDA graph: nothing is allocated when it runs. CuPy calls no cuBLAS in a capture, so that it is called here by
ctypes, with a workspace of its own.
"""

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import cupy as cp
import numpy as np
import numpy.typing as npt

THREADS = 256
WORKSPACE_BYTES = 32 << 20  # of cuBLAS, as NVIDIA advises for Hopper
# cublas_api.h and library_types.h
OP_N, OP_T, COMPUTE_32F, GEMM_DEFAULT = 0, 1, 68, -1
KINDS = {"float32": 0, "bfloat16": 14}
KERNELS = r"""
#include <cuda_bf16.h>

#if BFLOAT16
typedef __nv_bfloat16 Stored;
__device__ __forceinline__ float widened(Stored value) { return __bfloat162float(value); }
__device__ __forceinline__ Stored narrowed(float value) { return __float2bfloat16(value); }
#else
typedef float Stored;
__device__ __forceinline__ float widened(Stored value) { return value; }
__device__ __forceinline__ Stored narrowed(float value) { return value; }
#endif

__device__ __forceinline__ float sigmoid(float x) { return 1.0F / (1.0F + expf(-x)); }

// A row each block. The gates i, f, g, o are a product with the state and a row of the table.
extern "C" __global__ void lstm_cell(const float* products, const float* table, const int* tokens, const Stored* cell,
    Stored* next_hidden, Stored* next_cell, int units)
{
    const long long row = blockIdx.x;
    const float* product = products + 4 * row * units;
    const float* input = table + 4LL * tokens[row] * units;
    for (int u = threadIdx.x; u < units; u += blockDim.x)
    {
        const float kept = sigmoid(product[units + u] + input[units + u]) * widened(cell[row * units + u]);
        const float added = sigmoid(product[u] + input[u]) * tanhf(product[2 * units + u] + input[2 * units + u]);
        const float output = sigmoid(product[3 * units + u] + input[3 * units + u]);
        next_cell[row * units + u] = narrowed(kept + added);
        next_hidden[row * units + u] = narrowed(output * tanhf(kept + added));
    }
}

extern "C" __global__ void rectified(const float* sums, const float* bias, Stored* hidden, int units)
{
    const long long row = blockIdx.x;
    for (int u = threadIdx.x; u < units; u += blockDim.x)
        hidden[row * units + u] = narrowed(fmaxf(sums[row * units + u] + bias[u], 0.0F));
}

// The sum or maximum over the threads of a block.
__device__ __forceinline__ float of_block(float value, bool sums, float* of_warps)
{
    for (int offset = 16; offset > 0; offset /= 2)
    {
        const float other = __shfl_down_sync(0xffffffff, value, offset);
        value = sums ? value + other : fmaxf(value, other);
    }
    if (threadIdx.x % 32 == 0)
        of_warps[threadIdx.x / 32] = value;
    __syncthreads();
    value = of_warps[0];
    for (int warp = 1; warp < blockDim.x / 32; ++warp)
        value = sums ? value + of_warps[warp] : fmaxf(value, of_warps[warp]);
    __syncthreads();
    return value;
}

__device__ __forceinline__ void write_log_softmax(
    const float* logits, const float* bias, int count, float* log_probs, float* of_warps)
{
    float largest = -INFINITY;
    for (int i = threadIdx.x; i < count; i += blockDim.x)
        largest = fmaxf(largest, logits[i] + bias[i]);
    largest = of_block(largest, false, of_warps);
    float sum = 0.0F;
    for (int i = threadIdx.x; i < count; i += blockDim.x)
        sum += expf(logits[i] + bias[i] - largest);
    const float log_sum = logf(of_block(sum, true, of_warps));
    for (int i = threadIdx.x; i < count; i += blockDim.x)
        log_probs[i] = logits[i] + bias[i] - largest - log_sum;
}

// A row each block; a row of logits has `stride` columns, those of the durations after those of the tokens.
extern "C" __global__ void log_softmax(const float* logits, const float* bias, float* of_tokens, float* of_durations,
    int tokens, int durations, int stride)
{
    extern __shared__ float of_warps[];
    const long long row = blockIdx.x;
    write_log_softmax(logits + row * stride, bias, tokens, of_tokens + row * tokens, of_warps);
    write_log_softmax(
        logits + row * stride + tokens, bias + tokens, durations, of_durations + row * durations, of_warps);
}
"""


def library() -> Any:
    """cuBLAS, where CuPy finds it. Raises ImportError where there is none."""
    from cuda import pathfinder

    try:
        return ctypes.CDLL(pathfinder.load_nvidia_dynamic_lib("cublas").abs_path)
    except (OSError, RuntimeError) as error:
        raise ImportError(f"cuBLAS is missing: {error}") from error


class Cublas:
    """cuBLAS with a handle and a workspace."""

    def __init__(self) -> None:
        self.library, self.handle = library(), ctypes.c_void_p()
        self.workspace = cp.empty(WORKSPACE_BYTES, np.uint8)
        self.call("cublasCreate_v2", ctypes.byref(self.handle))

    def __del__(self) -> None:
        if getattr(self, "handle", None):  # which is null where it could not be created
            self.library.cublasDestroy_v2(self.handle)

    def call(self, name: str, *arguments: Any) -> None:
        """Raises RuntimeError where cuBLAS reports an error."""
        status = getattr(self.library, name)(*arguments)
        if status:
            raise RuntimeError(f"{name} returned the status {status}")

    def use(self, stream: int) -> None:
        """Another stream takes its workspace away, so that it is set again."""
        self.call("cublasSetStream_v2", self.handle, ctypes.c_void_p(stream))
        workspace = ctypes.c_void_p(self.workspace.data.ptr), ctypes.c_size_t(WORKSPACE_BYTES)
        self.call("cublasSetWorkspace_v2", self.handle, *workspace)

    def multiply(
        self, rows: int, weight: int, products: int, shape: tuple[int, int, int], precision: str, *, adds: bool
    ) -> None:
        """Sets `products` [rows, outputs] to the product of `rows` [rows, inputs] and `weight` [outputs, inputs], or
        adds it. These are addresses, of float32 the first; `shape` is rows, outputs, inputs.

        cuBLAS has matrices column by column: to it they are [outputs, rows], [inputs, rows] and [inputs, outputs].
        """
        count, outputs, inputs = shape
        kind, scale, kept = KINDS[precision], ctypes.c_float(1.0), ctypes.c_float(adds)
        self.call(
            "cublasGemmEx", self.handle, OP_T, OP_N, outputs, count, inputs, ctypes.byref(scale),
            ctypes.c_void_p(weight), kind, inputs, ctypes.c_void_p(rows), kind, inputs, ctypes.byref(kept),
            ctypes.c_void_p(products), KINDS["float32"], outputs, COMPUTE_32F, GEMM_DEFAULT,
        )  # fmt: skip


class CublasEngine:
    """An engine and its execution context in one, for `rows` hypotheses.

    Parameters
    ----------
    arrays
        A network as `arcbeam.TransducerDecoder.from_arrays` takes it, with one LSTM layer, the blank last and ReLU in
        the joint network.
    rows
        Hypotheses of a batch.
    durations
        How many durations the joint network has.
    precision
        Of weights, state and encoder output: "float32" or "bfloat16".

    Raises
    ------
    ValueError
        It has more than one LSTM layer, or another number of outputs.
    ImportError
        There is no cuBLAS.
    """

    def __init__(
        self, arrays: Mapping[str, npt.NDArray[np.float32]], rows: int, durations: int, precision: str
    ) -> None:
        layers = sum(name.startswith("weight_hh") for name in arrays)
        if layers != 1:
            raise ValueError(f"expected a network with one LSTM layer, got {layers}")
        outputs, self.joint_units = arrays["output_weight"].shape
        self.tokens, self.durations, self.rows = len(arrays["embedding"]), durations, rows
        if outputs != self.tokens + durations:
            raise ValueError(
                f"expected an output for each of {self.tokens} tokens and {durations} durations, got {outputs}"
            )
        self.features, self.units = arrays["encoder_weight"].shape[1], arrays["weight_hh_l0"].shape[1]
        self.precision, self.dtype = precision, cp.dtype(precision)
        state = (1, rows, self.units)
        self.shapes: dict[str, tuple[int, ...]] = {
            "encoder_output": (rows, self.features), "targets": (rows, 1), "input_states_1": state,
            "input_states_2": state, "token_log_probs": (rows, self.tokens),
            "duration_log_probs": (rows, durations), "output_states_1": state, "output_states_2": state,
        }  # fmt: skip
        self.addresses = dict.fromkeys(self.shapes, 0)
        rounded = {name: np.asarray(value).astype(self.dtype).astype(np.float32) for name, value in arrays.items()}
        table = rounded["embedding"] @ rounded["weight_ih_l0"].T + arrays["bias_ih_l0"] + arrays["bias_hh_l0"]
        self.stride = -(-outputs // 8) * 8  # of a row of logits: cuBLAS is fastest with rows of 32 bytes
        padding = ((0, self.stride - outputs), (0, 0))
        weights = {name: arrays[f"{name}_weight"] for name in ("encoder", "prediction")}
        weights |= {"recurrent": arrays["weight_hh_l0"], "output": np.pad(arrays["output_weight"], padding)}
        self.weights = {name: cp.array(value, self.dtype) for name, value in weights.items()}
        self.table, self.output_bias = cp.asarray(table.astype(np.float32)), cp.asarray(arrays["output_bias"])
        self.joint_bias = cp.asarray(arrays["encoder_bias"] + arrays["prediction_bias"])
        self.products = cp.empty((rows, 4 * self.units), np.float32)
        self.sums = cp.empty((rows, self.joint_units), np.float32)
        self.hidden = cp.empty((rows, self.joint_units), self.dtype)
        self.logits = cp.empty((rows, self.stride), np.float32)
        self.cublas = Cublas()
        source = f"#define BFLOAT16 {int(precision == 'bfloat16')}\n{KERNELS}"
        self.lstm_cell, self.rectified, self.log_softmax = (
            cp.RawKernel(source, name, options=("--std=c++17",), backend="nvcc")
            for name in ("lstm_cell", "rectified", "log_softmax")
        )

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        return self.shapes[name]

    def get_tensor_dtype(self, name: str) -> Any:
        return self.dtype

    def create_execution_context(self) -> "CublasEngine":
        return self

    def set_optimization_profile_async(self, index: int, stream: int) -> bool:
        return index == 0

    def set_tensor_address(self, name: str, address: int) -> bool:
        """False for a tensor that it does not have, as TensorRT's."""
        if name not in self.addresses:
            return False
        self.addresses[name] = int(address)
        return True

    def execute_async_v3(self, stream: int) -> bool:
        """Raises ValueError unless all addresses are set and the stream is CuPy's current one."""
        unset = sorted(name for name, address in self.addresses.items() if not address)
        if unset or stream != cp.cuda.get_current_stream().ptr:
            raise ValueError(f"expected addresses of all tensors and the current stream, got {unset}, {stream}")
        at = {name: np.uintp(address) for name, address in self.addresses.items()}
        self.cublas.use(stream)
        self._multiply("recurrent", self.addresses["input_states_1"], self.products)
        self._launch(
            self.lstm_cell, self.products, self.table, at["targets"], at["input_states_2"], at["output_states_1"],
            at["output_states_2"], self.units,
        )  # fmt: skip
        self._multiply("encoder", self.addresses["encoder_output"], self.sums)
        self._multiply("prediction", self.addresses["output_states_1"], self.sums, adds=True)
        self._launch(self.rectified, self.sums, self.joint_bias, self.hidden, self.joint_units)
        self._multiply("output", self.hidden.data.ptr, self.logits)
        self._launch(
            self.log_softmax, self.logits, self.output_bias, at["token_log_probs"], at["duration_log_probs"],
            self.tokens, self.durations, self.stride,
        )  # fmt: skip
        return True

    def _launch(self, kernel: Any, *arguments: Any) -> None:
        """A block each row."""
        values = tuple(np.int32(value) if isinstance(value, int) else value for value in arguments)
        kernel((self.rows,), (THREADS,), values, shared_mem=4 * THREADS // 32)

    def _multiply(self, name: str, rows: int, products: Any, *, adds: bool = False) -> None:
        """Sets `products` [rows, outputs] to the product of rows at an address with a weight, or adds it."""
        weight = self.weights[name]
        shape = self.rows, *weight.shape
        self.cublas.multiply(rows, weight.data.ptr, products.data.ptr, shape, self.precision, adds=adds)


def with_durations(
    arrays: Mapping[str, npt.NDArray[np.float32]], log_probs: Sequence[float]
) -> dict[str, npt.NDArray[np.float32]]:
    """The network of an RNN-T as that of a TDT whose durations have these log-probs, whatever the frame and history."""
    units = arrays["output_weight"].shape[1]
    return dict(arrays) | {
        "output_weight": np.concatenate([arrays["output_weight"], np.zeros((len(log_probs), units), np.float32)]),
        "output_bias": np.concatenate([arrays["output_bias"], np.asarray(log_probs, np.float32)]),
    }
