"""fast-gpu-asr's beam search of TDT models on the weights of a transducer that is named arrays: its search on cuBLAS.

The search is its own, untouched: its decoder, its kernels and its CUDA graphs. What it runs between its kernels, a
TensorRT engine of the prediction and joint network, is stood in for by `cublas_engine`. Its module is loaded without
what the package as a whole needs (TensorRT, OmegaConf, its encoder): CuPy, torch, ml_dtypes and nvcc will do.

The search takes any durations that are not negative. It cuts those beyond the last frame, gives a blank only the
durations above 0, leaves a frame after `MAX_SYMBOLS` labels of duration 0, and returns the best path by score /
(labels + 1). Its search of RNN-T models is for prediction networks without a state, and takes at most one label a
frame; so an RNN-T is searched as a TDT of the durations 0 and 1. The duration 1 has a log-prob of -`APART`, which the
penalty on blanks gives back to these, so that labels last no frame and blanks last one.
"""

import importlib
import importlib.util
import sys
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

MODULE = "fast_gpu_asr.decoder.parakeet_tdt_decoder"
BARE = ("fast_gpu_asr", "fast_gpu_asr.decoder")
MAX_SYMBOLS = 10
APART = 40.0  # nats: a label that lasts a frame has e^-40 of the probability
FRAME_SHIFT = 0.08


def find() -> Path:
    """The folder ``fast_gpu_asr`` of the wheel. Raises ImportError where it is not installed."""
    if "fast_gpu_asr" in sys.modules:
        return Path(sys.modules["fast_gpu_asr"].__path__[0])
    spec = importlib.util.find_spec("fast_gpu_asr")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("fast-gpu-asr is not installed: its wheel fast-gpu-asr==0.2.0 alone will do")
    return Path(next(iter(spec.submodule_search_locations)))


def load() -> Any:
    """The module with its decoder, which takes an engine in place of the path of one.

    Raises
    ------
    ImportError
        Its wheel, CuPy, torch or ml_dtypes is missing.
    """
    if MODULE in sys.modules:
        return sys.modules[MODULE]
    folder = find()
    import ml_dtypes  # noqa: F401  # with it "bfloat16" is the name of a type

    def bare(name: str, **names: Any) -> types.ModuleType:
        module = types.ModuleType(name)
        module.__path__ = [str(folder.joinpath(*name.split(".")[1:]))]
        vars(module).update(names)
        return module

    errors = {name: type(name, (RuntimeError,), {}) for name in ("ASRInferenceError", "ASRInitializationError")}
    stood_in = {name: bare(name) for name in BARE} | {
        "fast_gpu_asr.utils": bare("fast_gpu_asr.utils", get_engine=lambda engine: engine, **errors),
        # What it asks TensorRT for is a type by its name, which the engine here says as NumPy does.
        "tensorrt": types.SimpleNamespace(bfloat16=object(), nptype=lambda dtype: dtype),
    }
    before = {name: sys.modules[name] for name in stood_in if name in sys.modules}
    sys.modules.update(stood_in)  # type: ignore[arg-type]
    try:
        return importlib.import_module(MODULE)
    finally:
        for name in stood_in:
            del sys.modules[name]
        sys.modules.update(before)


class FastGpuAsr:
    """Decodes padded batches of encoder output on the GPU.

    durations : of a TDT; None for an RNN-T
    beam_size : hypotheses of an utterance
    precision : of the networks and the encoder output: "float32", without TF32, or "bfloat16"
    """

    def __init__(
        self,
        arrays: Mapping[str, npt.NDArray[np.float32]],
        blank: int,
        durations: Sequence[int] | None,
        beam_size: int,
        *,
        precision: str = "float32",
    ) -> None:
        self.module = load()
        from benchmarks.adapters import cublas_engine

        self.engine, self.cp = cublas_engine.CublasEngine, self.module.cp
        if durations is None:
            arrays = cublas_engine.with_durations(arrays, (0.0, -APART))
        self.arrays, self.precision, self.beam_size = arrays, precision, beam_size
        self.stream = self.cp.cuda.Stream(non_blocking=True)
        self.options = {
            "blank_id": blank, "durations": (0, 1) if durations is None else tuple(durations),
            "max_symbols_per_timestep": MAX_SYMBOLS, "encoder_frame_shift_sec": FRAME_SHIFT,
            "blank_penalty": -APART if durations is None else 0.0, "device": self.cp.cuda.Device(),
            "stream": self.stream,
        }  # fmt: skip

    def prepare(self, frames: npt.NDArray[np.float32], lengths: Sequence[int] | None = None) -> tuple[Any, Any, Any]:
        """A decoder for such batches with its CUDA graph, and the encoder output and its lengths on the GPU.

        Raises
        ------
        RuntimeError
            The decoder could not make a CUDA graph, without which it would be slower.
        """
        counts = np.full(len(frames), frames.shape[1]) if lengths is None else np.asarray(lengths)
        engine = self.engine(self.arrays, len(frames) * self.beam_size, len(self.options["durations"]), self.precision)
        decoder = self.module.ParakeetModifiedBeamSearchDecoder(engine, len(frames), **self.options)
        with self.stream:
            encoded = self.cp.array(frames, self.cp.dtype(self.precision))
            ready = decoder, encoded, self.cp.asarray(counts.astype(np.int32))
        self.stream.synchronize()
        for _ in range(2):  # it captures a graph once it has run without
            self.decode(ready)
        if decoder.cuda_graph is None:
            raise RuntimeError("the search has made no CUDA graph")
        return ready

    @staticmethod
    def decode(ready: tuple[Any, Any, Any]) -> list[list[int]]:
        """The tokens of the best path of each utterance; the decoder makes lists of its times, too."""
        decoder, encoded, lengths = ready
        return decoder(encoded, lengths)[0]  # type: ignore[no-any-return]
