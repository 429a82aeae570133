"""What goes from samples to the decoder's input: which library opens a model, and what all of them have in common."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from arcbeam.adapters.hugging_face import CTC, TRANSDUCERS, from_transformers
from arcbeam.adapters.nemo import from_nemo
from arcbeam.adapters.onnx import from_onnx
from arcbeam.adapters.onnx_folder import find_export
from arcbeam.core.errors import UnsupportedError
from arcbeam.files.nemo_archive import is_model
from arcbeam.transcribe.nemo_model import NemoModel, load_nemo, uses_joint
from arcbeam.transcribe.transformers_model import TransformersModel, load_transformers
from arcbeam.transcribe.windows import Samples
from arcbeam.transducer.decoder import TransducerDecoder

TOOLKITS = ("onnx", "transformers", "nemo")
NAME = re.compile(r"[\w-][\w.-]*/[\w.-]+")  # of an account and a model
NEMO_NAMES = ("stt_",)  # how names of NeMo's models begin that no account comes before


@runtime_checkable
class AcousticModel(Protocol):
    """An acoustic model with its decoder, as those of `from_onnx` are."""

    decoder: Any

    @property
    def sample_rate(self) -> int:
        """Samples a second that the model takes."""
        ...

    def encode(self, audio: Any, *, sample_rate: int = 16_000, batch_size: int = 1) -> Any:
        """The decoder's input for each of some recordings [samples]: a list of arrays [frames, columns]."""
        ...


def open_model(
    model: Any,
    lm: Any,
    processor: Any,
    toolkit: str | None,
    confidence: bool,
    decoder_options: Mapping[str, Any],
    onnx_options: Mapping[str, Any],
) -> AcousticModel:
    """The model that `Transcriber` was given: an open one, a model object of a library, a folder, a file or a name."""
    given = {name: one for name, one in decoder_options.items() if one is not None}
    if toolkit not in (None, *TOOLKITS):
        raise ValueError(f"toolkit: expected one of {', '.join(TOOLKITS)} or None, got {toolkit!r}")
    if isinstance(model, AcousticModel):
        of_decoder = [name for name, one in {"lm": lm, **given}.items() if one is not None]
        why = "the model is opened already"
        if of_decoder:
            why += f"; give {', '.join(f'{name}=' for name in of_decoder)} to its decoder"
        _check_none(model, {"lm": lm, "processor": processor, "toolkit": toolkit, **given, **onnx_options}, why)
        return model
    if not isinstance(model, (str, os.PathLike)):
        _check_none(model, {"toolkit": toolkit, **onnx_options}, "its library is known")
        if is_model(model):
            _check_none(model, {"processor": processor}, "a model of NeMo has its own")
            return NemoModel(model, from_nemo(model, lm, **_measured(given, confidence and uses_joint(model))))
        kind = getattr(getattr(model, "config", None), "model_type", None)
        if kind in CTC or kind in TRANSDUCERS:
            return _of_transformers(model, processor, lm, confidence, given)
        raise UnsupportedError(
            "model: expected a path, a name, a model of from_onnx, or a model object of Transformers or NeMo; or "
            f"any object with decoder, sample_rate and encode(audio, sample_rate=, batch_size=), got "
            f"{type(model).__name__}"
        )
    name = os.fspath(model)
    toolkit = toolkit or toolkit_of(name)
    if toolkit == "onnx":
        _check_none(name, {"processor": processor}, "an export has its tokens")
        files = {option: one for option, one in onnx_options.items() if option != "preprocessor"}
        measured = confidence and bool(find_export(name, **files).networks)
        return from_onnx(name, lm, **_measured(given, measured), **onnx_options)
    _check_none(name, onnx_options, "it is no model in ONNX files")
    if toolkit == "nemo":
        _check_none(name, {"processor": processor}, "a model of NeMo has its own")
        loaded = load_nemo(name)
        return NemoModel(loaded, from_nemo(loaded, lm, **_measured(given, confidence and uses_joint(loaded))))
    return _of_transformers(*load_transformers(name, processor), lm, confidence, given)


def _of_transformers(model: Any, processor: Any, lm: Any, confidence: bool, given: dict[str, Any]) -> TransformersModel:
    """A model object of Transformers with its decoder."""
    options = _measured(given, confidence and model.config.model_type in TRANSDUCERS)
    return TransformersModel(model, processor, from_transformers(model, processor, lm, **options))


def _measured(given: dict[str, Any], confidence: bool) -> dict[str, Any]:
    """The options of a decoder, and for a transducer with confidences a measure of them, unless there is one."""
    if not confidence:
        return given
    return given | {"transducer": {"confidence": "entropy", **given.get("transducer", {})}}


def toolkit_of(name: str) -> str:
    """The library that opens a model, by what is at its path, or by its name.

    Raises
    ------
    FileNotFoundError, UnsupportedError
        A path where there is nothing, or something else.
    """
    path = Path(name)
    if name.endswith(".nemo"):
        return "nemo"
    if path.is_dir():
        if any(path.glob("*.onnx")) or any(path.glob("*/*.onnx")):
            return "onnx"
        if (path / "config.json").is_file():
            return "transformers"
        raise UnsupportedError(
            f"{name}: expected the folder of a model, with *.onnx files or with config.json and the weights of "
            "Transformers, got one with neither"
        )
    if name.startswith(NEMO_NAMES):
        return "nemo"
    expected = "expected the folder of a model, a .nemo archive, or a name such as facebook/wav2vec2-base-960h"
    if path.exists():
        raise UnsupportedError(f"{name}: {expected}, got another file")
    if not NAME.fullmatch(name):
        raise FileNotFoundError(f"{name}: {expected}; there is no such path")
    return "transformers"


def _check_none(model: Any, options: Mapping[str, Any], why: str) -> None:
    """ValueError for options that a model of this kind does not take."""
    given = [name for name, one in options.items() if one is not None]
    if given:
        shown = model if isinstance(model, str) else type(model).__name__
        raise ValueError(f"{', '.join(given)}: expected None for {shown}, because {why}")


def check_decoder(model: AcousticModel, confidence: bool, is_opened: bool) -> float:
    """Seconds from one frame to the next; ValueError for a decoder that has no times, no text or no confidences.

    `is_opened`: the model was given with its decoder, so that options can be given there alone.
    """
    decoder = model.decoder
    shift = decoder.options.frame_shift
    if shift is None:
        hint = "give frame_shift= to its decoder" if is_opened else "give them"
        raise ValueError(f"frame_shift: expected the seconds of a frame of the model, which it does not say; {hint}")
    if isinstance(decoder, TransducerDecoder):
        if not decoder.has_text:
            raise ValueError("model: expected a transducer with pieces, which text is made of; give transducer="
                             "{'tokenizer': ...}")  # fmt: skip
        if confidence and decoder.options.confidence is None:
            raise ValueError(
                "confidence: expected a transducer whose decoder measures it; open the model with "
                "transducer={'confidence': 'entropy'}"
            )
    return float(shift)


def encoded(model: AcousticModel, windows: Sequence[Samples], batch_size: int) -> list[Any]:
    """The model's output for each of some windows; TypeError or ValueError unless that is an array for each."""
    expected = "encode: expected a list with an array [frames, columns] for each recording"
    found = model.encode([*windows], sample_rate=model.sample_rate, batch_size=batch_size)
    if not isinstance(found, Iterable):
        raise TypeError(f"{expected}, got {type(found).__name__}; return [array] for one recording")
    arrays = [*found]
    if len(arrays) != len(windows):
        got = f"shape {[*found.shape]}" if hasattr(found, "shape") else f"{len(arrays)} in a {type(found).__name__}"
        hint = "; return [array] for one recording" if len(windows) == 1 else ""
        raise ValueError(f"{expected}, {len(windows)}, got {got}{hint}")
    for array in arrays:
        if not hasattr(array, "shape"):
            raise TypeError(f"{expected}, got {type(array).__name__} in it; return arrays of NumPy, or with DLPack")
        if len(array.shape) != 2:
            hint = "; return array[0] of it" if len(array.shape) == 3 and array.shape[0] == 1 else ""
            raise ValueError(f"{expected}, got one of shape {[*array.shape]}{hint}")
    return arrays
