"""Acoustic models for end-to-end experiments: recordings in, log-probs out, in the parts that are timed.

``open_model`` gives one interface to QuartzNet in torch (the model of ``ARCBEAM_DATA``), to any CTC model as ONNX
(onnxruntime) and to any as TorchScript (torch). A model takes log-mel features [batch, bins, frames] or samples
[batch, samples], maybe with the length of each as a second input, and gives natural log-probs [batch, frames, columns].
A model that is not told lengths gets utterances one at a time, so that padding cannot change what it says.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from benchmarks.data.datasets import data_folder

Waves = Sequence[npt.NDArray[np.float32]]
LogProbs = tuple[Any, list[int]]  # [batch, frames, columns], a torch tensor or a numpy array; frames of each utterance
WINDOWS = {64: 320}  # samples, by mel bins; 400 (25 ms) for any other


class AcousticModel(Protocol):
    """What an end-to-end run calls, in this order; each part returns when its work is done.

    name, device, settings : for tables
    batch : utterances at a time: 1 where the model is not told lengths
    """

    name: str
    device: str
    settings: str
    batch: int

    def load(self, waves: Waves) -> Any:
        """Samples on the device."""

    def features(self, samples: Any) -> Any:
        """Log-mel features; the samples as they are for a model that takes those."""

    def log_probs(self, features: Any) -> LogProbs:
        """Natural log-probs, on the device where the model works."""


def default_model() -> Path:
    """QuartzNet 15x5 of ARCBEAM_DATA."""
    return data_folder() / "model" / "quartznet15x5.onnx"


def open_model(path: str | Path | None, device: str, batch: int, options: Mapping[str, str]) -> AcousticModel:
    """A model by its file. Options, all text:

    runtime : "torch" or "onnxruntime"; by default torch for QuartzNet and TorchScript, else onnxruntime
    input : "features" or "audio"; ONNX files tell by themselves, TorchScript is taken to want features
    mels, window : bins (ONNX files tell) and samples of the window of the features
    logits : "yes" where the model's output has to be normalised
    precision : "float16" for torch models on a GPU
    """
    path = Path(path) if path is not None else default_model()
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such model")
    runtime = options.get("runtime")
    if runtime not in (None, "torch", "onnxruntime"):
        raise KeyError(f"runtime: expected torch or onnxruntime, got {runtime!r}")
    if path.suffix != ".onnx":
        return TorchScriptModel(path, device, batch, options)
    if runtime == "torch" or (runtime is None and _is_quartznet(path)):
        return QuartzNetModel(path, device, batch, options)
    return OnnxModel(path, device, batch, options)


def _is_quartznet(path: Path) -> bool:
    from benchmarks.data.onnx_weights import read_convs
    from benchmarks.data.quartznet import CONVOLUTIONS

    try:
        return len(read_convs(path)) == CONVOLUTIONS
    except ValueError:
        return False


def _front_end(mels: int, options: Mapping[str, str], device: str) -> Any:
    from benchmarks.data.front_end import FrontEnd, FrontEndOptions

    mels = int(options.get("mels", mels))
    return FrontEnd(FrontEndOptions(mels, int(options.get("window", WINDOWS.get(mels, 400)))), device)


def _synchronize(device: str) -> None:
    if device != "cpu":
        import torch

        torch.cuda.synchronize()


def check_normalised(log_probs: Any, name: str) -> None:
    """Raises ValueError unless the first frame is a distribution: logits are not guessed at, they are said."""
    total = float(np.exp(np.asarray(log_probs[0, 0].tolist(), np.float64)).sum())
    if not abs(total - 1) < 0.02:
        raise ValueError(
            f"{name}: expected natural log-probs, but those of a frame sum to {total:.4g}; say logits=yes if they are "
            "to be normalised"
        )


def _precision(half: bool, device: str) -> str:
    """As tables say it: on a GPU torch rounds the inputs of float32 convolutions to TF32, unless it is told not to."""
    if half:
        return "float16"
    import torch

    return "float32 (convolutions TF32)" if device != "cpu" and torch.backends.cudnn.allow_tf32 else "float32"


class _WithFrontEnd:
    """Samples and features, common to the models below."""

    device = "cpu"
    front_end: Any = None  # None: the model takes samples

    def load(self, waves: Waves) -> Any:
        from benchmarks.data.front_end import pad

        loaded = pad(waves, self.device)
        _synchronize(self.device)
        return loaded

    def features(self, samples: Any) -> Any:
        if self.front_end is None:
            return samples
        made = self.front_end(*samples)
        _synchronize(self.device)
        return made


class QuartzNetModel(_WithFrontEnd):
    """The torch module of `benchmarks.data.quartznet`."""

    def __init__(self, path: Path, device: str, batch: int, options: Mapping[str, str]) -> None:
        import torch

        from benchmarks.data.quartznet import QuartzNet

        half = options.get("precision") == "float16"
        self.name, self.device, self.batch = path.stem, device, batch
        self.settings = f"torch, {_precision(half, device)}, batch {batch}"
        self.front_end = _front_end(64, options, device)
        self.type = torch.float16 if half else torch.float32
        self.net = QuartzNet(path).to(device, self.type)

    def log_probs(self, features: Any) -> LogProbs:
        values, lengths = features
        said = self.net(values.to(self.type), lengths)
        _synchronize(self.device)
        return said  # type: ignore[no-any-return]


def _frames_of(lengths: Sequence[int], frames_in: int, frames_out: int) -> list[int]:
    """Output frames of each utterance, where the model tells only those of the longest."""
    step = max(1, round(frames_in / frames_out))
    return [min(frames_out, -(-n // step)) for n in lengths]


class TorchScriptModel(_WithFrontEnd):
    """Any CTC model saved by torch.jit: ``forward(features)`` or ``forward(features, lengths)``."""

    def __init__(self, path: Path, device: str, batch: int, options: Mapping[str, str]) -> None:
        import torch

        self.net = torch.jit.load(str(path), map_location=device).eval()
        inputs = len(self.net.forward.schema.arguments) - 1
        if inputs not in (1, 2):
            raise ValueError(f"{path}: expected forward(features) or forward(features, lengths), got {inputs} inputs")
        self.takes_lengths = inputs == 2
        self.name, self.device, self.batch = path.stem, device, batch if self.takes_lengths else 1
        self.logits = options.get("logits") == "yes"
        self.half = options.get("precision") == "float16"
        self.settings = f"TorchScript, {_precision(self.half, device)}, batch {self.batch}"
        if options.get("input", "features") == "features":
            self.front_end = _front_end(80, options, device)
        self.checked = False

    def log_probs(self, features: Any) -> LogProbs:
        import torch

        values, lengths = features
        told = (torch.tensor(lengths, device=self.device),) if self.takes_lengths else ()
        with torch.inference_mode(), torch.autocast(self.device.split(":")[0], torch.float16, enabled=self.half):
            said = self.net(values, *told)
        outputs = said if isinstance(said, (tuple, list)) else (said,)
        out = outputs[0].float()
        if self.logits:
            out = torch.log_softmax(out, -1)
        if not self.checked:
            check_normalised(out, self.name)
            self.checked = True
        if len(outputs) > 1 and not outputs[1].is_floating_point():
            frames = [int(n) for n in outputs[1].tolist()]
        else:
            frames = _frames_of(lengths, values.shape[-1], out.shape[1])
        _synchronize(self.device)
        return out, frames


class OnnxModel(_WithFrontEnd):
    """Any CTC model as ONNX, by onnxruntime: input [batch, bins, frames] or [batch, samples], maybe with lengths."""

    def __init__(self, path: Path, device: str, batch: int, options: Mapping[str, str]) -> None:
        import onnxruntime

        wanted = ["CPUExecutionProvider"] if device == "cpu" else ["CUDAExecutionProvider"]
        if wanted[0] not in onnxruntime.get_available_providers():
            raise ImportError(f"onnxruntime has no {wanted[0]} here")
        self.session = onnxruntime.InferenceSession(str(path), providers=wanted)
        inputs = self.session.get_inputs()
        if len(inputs) not in (1, 2) or len(inputs[0].shape) not in (2, 3):
            shapes = [(i.name, i.shape) for i in inputs]
            raise ValueError(f"{path}: expected features or samples, and maybe lengths, got inputs {shapes}")
        self.inputs = [i.name for i in inputs]
        self.length_type = np.int32 if len(inputs) == 2 and "int32" in inputs[1].type else np.int64
        self.name, self.device, self.batch = path.stem, device, batch if len(inputs) == 2 else 1
        self.logits = options.get("logits") == "yes"
        self.settings = f"onnxruntime {onnxruntime.__version__}, batch {self.batch}"
        if len(inputs[0].shape) == 3:
            bins = inputs[0].shape[1]
            self.front_end = _front_end(bins if isinstance(bins, int) else 80, options, "cpu")
        self.checked = False

    def load(self, waves: Waves) -> Any:
        from benchmarks.data.front_end import pad

        return pad(waves, "cpu")

    def log_probs(self, features: Any) -> LogProbs:
        values, lengths = features
        fed = dict(zip(self.inputs, (values.numpy(), np.array(lengths, self.length_type)), strict=False))
        outputs = self.session.run(None, fed)
        out = outputs[0].astype(np.float32)
        if self.logits:
            out = out - np.logaddexp.reduce(out.astype(np.float64), axis=-1, keepdims=True).astype(np.float32)
        if not self.checked:
            check_normalised(out, self.name)
            self.checked = True
        if len(outputs) > 1 and outputs[1].dtype.kind == "i":
            return out, [int(n) for n in outputs[1]]
        return out, _frames_of(lengths, values.shape[-1], out.shape[1])
