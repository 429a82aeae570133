"""The acoustic model of an export: onnx-asr's classes, and two of the same kind for layouts that it does not have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from arcbeam.adapters.onnx_folder import OURS, Export, class_of
from arcbeam.core.errors import FormatError, UnsupportedError
from arcbeam.core.packages import require
from arcbeam.files.reading import reason_of

OF_NO_MODEL = ("resample", "wespeaker", "whisper")  # networks of onnx-asr that are no features of these models
SILENT_FRAMES = 320  # 3.2 s: a frame more or less, as convolutions are padded, does not change the factor


def open_acoustic(
    export: Export,
    is_tdt: bool,
    preprocessor: str | Callable[..., Any] | None,
    providers: Sequence[Any] | None,
    sess_options: Any,
) -> Any:
    """onnx-asr's adapter of the model, as ``onnx_asr.load_model`` makes it, but without its tokens.

    Raises
    ------
    UnsupportedError
        A streaming export, or features that onnx-asr does not have.
    FormatError
        onnxruntime cannot load a file, or onnx-asr cannot read the configuration.
    """
    from onnx_asr import loader
    from onnx_asr.onnx import update_onnx_providers

    kind = _kind(export, is_tdt)
    manager = loader.Manager(sess_options, providers)
    options = update_onnx_providers(manager.default_onnx_config, excluded_providers=kind._get_excluded_providers())

    try:
        # The features are made below: only the session of the encoder says what a folder without config.json wants.
        paths = {role: path for role, path in export.files.items() if role != "vocab"}
        asr = kind(paths, lambda name: None, options)
    except Exception as error:  # onnxruntime has classes of its own
        if isinstance(error, (MemoryError, OSError)):
            raise
        raise FormatError(f"{export.folder}: onnx-asr cannot load this model ({reason_of(error)})") from error
    session = _session(asr)
    _complete_config(asr, session)
    inputs = [value.name for value in session.get_inputs()]
    if len(inputs) > 2:
        raise UnsupportedError(
            f"{export.folder}: expected an acoustic model of whole recordings, with features and their lengths as "
            f"inputs, got the inputs {', '.join(inputs[:6])}: a streaming export"
        )
    _measure_subsampling(asr)
    if preprocessor is None or isinstance(preprocessor, str):
        preprocessor = _features(manager, asr, export, preprocessor)
    asr._preprocessor = preprocessor
    return manager._create_asr_adapter(asr)


def _kind(export: Export, is_tdt: bool) -> Any:
    """The class of the model."""
    from onnx_asr.models import nemo

    if export.model_type in OURS:
        return kaldi_ctc()
    kind = class_of(export.model_type, export.folder)
    if kind in (nemo.NemoConformerRnnt, nemo.NemoConformerTdt):
        kind = nemo.NemoConformerTdt if is_tdt else nemo.NemoConformerRnnt
        return kind if "decoder_joint" in export.files else nemo_in_three_files(kind)
    return kind


def _complete_config(asr: Any, session: Any) -> None:
    """What config.json would say, from the shapes and the metadata that sherpa-onnx's exports have."""
    first = session.get_inputs()[0]
    if first.name != "x" and len(first.shape) == 3 and isinstance(first.shape[1], int):  # icefall's has frames there
        asr.config.setdefault("features_size", first.shape[1])
    metadata = session.get_modelmeta().custom_metadata_map
    if str(metadata.get("subsampling_factor", "")).isdecimal():
        asr.config.setdefault("subsampling_factor", int(metadata["subsampling_factor"]))


def _measure_subsampling(asr: Any) -> None:
    """The subsampling factor where neither config.json nor the metadata has it: frames in by frames out, of silence.

    onnx-asr would take the factor of a usual model of the type. Times follow from it, and of a CTC model the length to
    which its output is cut.
    """
    shape, axis = list(_session(asr).get_inputs()[0].shape), frames_axis(asr)
    bins = shape[3 - axis] if len(shape) == 3 else None
    bins = bins if isinstance(bins, int) else asr.config.get("features_size")
    if "subsampling_factor" in asr.config or not isinstance(bins, int) or isinstance(shape[axis], int):
        return
    silence = np.zeros((1, bins, SILENT_FRAMES), np.float32)
    try:
        output = asr._encode(silence if axis == 2 else silence.transpose(0, 2, 1), np.array([SILENT_FRAMES]))[0]
    except Exception:  # onnxruntime has classes of its own; the first recording raises what is wrong
        return
    asr.config["subsampling_factor"] = max(1, round(SILENT_FRAMES / max(1, output.shape[1])))


def frames_axis(asr: Any) -> int:
    """The axis of frames in features: 1 with icefall's [batch, frames, bins], 2 with [batch, bins, frames]."""
    return 1 if _session(asr).get_inputs()[0].name == "x" else 2


def check_features(asr: Any, features: Any) -> None:
    """ValueError for features of another size than the acoustic model takes."""
    shape, axis = _session(asr).get_inputs()[0].shape, 3 - frames_axis(asr)
    if len(shape) == 3 and isinstance(shape[axis], int) and features.shape[axis] != shape[axis]:
        raise ValueError(
            f"preprocessor: expected features of {shape[axis]} values, which the acoustic model takes, got "
            f"{features.shape[axis]}"
        )


def _session(asr: Any) -> Any:
    """The session of the acoustic model."""
    return asr._model if hasattr(asr, "_model") else asr._encoder


def _features(manager: Any, asr: Any, export: Export, name: str | None) -> Any:
    """onnx-asr's features of a name, or by default those of the model."""
    from onnx_asr.utils import ModelNotSupportedError

    try:
        return manager._create_preprocessor(asr._preprocessor_name if name is None else name)
    except (AssertionError, KeyError, FileNotFoundError, ModelNotSupportedError) as error:
        known = ", ".join(_names_of_features())
        if name is not None:
            raise ValueError(
                f"preprocessor: expected features of onnx-asr, {known}, or FILE.py:FUNCTION, got {name!r}"
            ) from error
        raise UnsupportedError(
            f"{export.folder}: onnx-asr has no features of {asr.config.get('features_size')} values for this model; "
            f"give preprocessor=, with features that it has ({known}) or a function of yours, as in "
            "preprocessor='features.py:log_mel'"
        ) from error


def _names_of_features() -> list[str]:
    """The names of the features that onnx-asr has for speech models."""
    data = files(require("onnx_asr.preprocessors", "an ONNX model")).joinpath("data")
    stems = {one.name.removesuffix(".onnx") for one in data.iterdir() if one.name.endswith(".onnx")}
    return sorted(one for one in stems if not one.startswith(OF_NO_MODEL) and not one.endswith("_conv"))


@cache
def kaldi_ctc() -> Any:
    """The class of CTC models of icefall, whose features are those of Kaldi."""
    import onnxruntime
    from onnx_asr import asr

    class KaldiCtc(asr._AsrWithCtcDecoding):
        """A CTC model of icefall (Zipformer) as sherpa-onnx has it."""

        def __init__(self, model_files: Any, preprocessor_factory: Any, onnx_options: Any) -> None:
            super().__init__(model_files, preprocessor_factory, onnx_options)
            self._model = onnxruntime.InferenceSession(model_files["model"], **onnx_options)

        @staticmethod
        def _get_model_files(quantization: str | None = None) -> dict[str, str]:
            return {"model": f"model{'?' + quantization if quantization else ''}.onnx", "vocab": "tokens.txt"}

        @property
        def _preprocessor_name(self) -> str:
            return "kaldi"

        @property
        def _subsampling_factor(self) -> int:
            return int(self.config.get("subsampling_factor", 4))

        def _encode(self, features: Any, features_lens: Any) -> Any:
            log_probs, lengths = self._model.run(None, {"x": features, "x_lens": features_lens})[:2]
            return log_probs, lengths.astype(np.int64)

    return KaldiCtc


@cache
def nemo_in_three_files(base: Any) -> Any:
    """The class of a NeMo transducer whose prediction and joint network are in files of their own."""
    import onnxruntime
    from onnx_asr import asr

    class NemoInThreeFiles(base):
        """A NeMo transducer as sherpa-onnx has it: the same encoder, and a session more in each step."""

        def __init__(self, model_files: Any, preprocessor_factory: Any, onnx_options: Any) -> None:
            asr._AsrWithDecoding.__init__(self, model_files, preprocessor_factory, onnx_options)
            sessions = [
                onnxruntime.InferenceSession(model_files[name], **onnx_options) for name in ("encoder", "decoder")
            ]
            self._encoder, self._decoder = sessions
            self._joiner = onnxruntime.InferenceSession(model_files["joiner"], **onnx_options)

        def _create_state(self) -> Any:
            shapes = [value.shape for value in self._decoder.get_inputs()[2:4]]
            return tuple(np.zeros((shape[0], 1, shape[2]), np.float32) for shape in shapes)

        def _decode(self, prev_tokens: list[int], prev_state: Any, encoder_out: Any) -> Any:
            names = [value.name for value in self._decoder.get_inputs()]
            last = prev_tokens[-1] if prev_tokens else self._blank_idx
            fed = dict(zip(names, ([[last]], [1], *prev_state), strict=True))
            predicted, _, *state = self._decoder.run(None, fed)
            names = [value.name for value in self._joiner.get_inputs()]
            (outputs,) = self._joiner.run(None, dict(zip(names, (encoder_out[None, :, None], predicted), strict=True)))
            outputs = np.squeeze(outputs)
            is_tdt = len(outputs) > self._vocab_size
            step = int(outputs[self._vocab_size :].argmax()) if is_tdt else -1
            return outputs[: self._vocab_size], step, tuple(state)

    return NemoInThreeFiles
