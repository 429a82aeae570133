"""The files of an ONNX export: which model they are, by config.json or their names, and which file is which."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arcbeam.core.errors import FormatError, UnsupportedError
from arcbeam.core.packages import require
from arcbeam.files.lines import read_text
from arcbeam.files.reading import reading

CONFIG = "config.json"
#: File names of each role, {q} being the quantisation; onnx-asr's own come before them.
NAMES = {
    "model": ("model{q}.onnx", "*ctc*{q}.onnx"),
    "encoder": ("encoder-model{q}.onnx", "encoder{q}.onnx", "encoder-*{q}.onnx"),
    "decoder_joint": ("decoder_joint-model{q}.onnx", "decoder_joint{q}.onnx", "decoder_joint-*{q}.onnx"),
    "decoder": ("decoder{q}.onnx", "decoder-*{q}.onnx"),
    "joiner": ("joiner{q}.onnx", "joiner-*{q}.onnx", "joint{q}.onnx"),
    "vocab": ("vocab.txt", "tokens.txt"),
}
ACOUSTIC = ("model", "encoder")  # which may be quantised
QUANTISED = re.compile(r"[._-](u?int\d+|b?f(loat|p)?16|q\d\w*|quant\w*)$")
#: Inputs of a CTC model, by which one without a configuration is told.
CTC_INPUTS = {
    frozenset(("audio_signal", "length")): "nemo-conformer-ctc",
    frozenset(("features", "feature_lengths")): "gigaam-v2-ctc",
    frozenset(("x", "x_lens")): "kaldi-ctc",
}
OURS = ("kaldi-ctc",)  # types that onnx-asr does not have
EXPECTED = (
    "model.onnx (a CTC model), encoder*.onnx and decoder_joint*.onnx, or encoder*.onnx, decoder*.onnx and joiner*.onnx"
)


@dataclass(frozen=True)
class Export:
    """A folder, the type of its model by onnx-asr's name, and its files by their roles."""

    folder: Path
    model_type: str
    files: dict[str, Path]

    @property
    def vocabulary(self) -> Path:
        """The file of the tokens."""
        return self.files["vocab"]

    @property
    def networks(self) -> list[Path]:
        """The files with the prediction and the joint network of a transducer."""
        return [self.files[role] for role in ("decoder_joint", "decoder", "joiner", "joint") if role in self.files]


def find_export(folder: str | os.PathLike[str], model_type: str | None, quantization: str | None) -> Export:
    """The model in a folder.

    Raises
    ------
    OSError
        There is no such folder, or a file is missing.
    ValueError
        Several files may be the one, or the type of the model is unknown.
    UnsupportedError
        A model that is neither a CTC model nor a transducer.
    """
    place = Path(os.fsdecode(folder))
    if not place.is_dir():
        problem = NotADirectoryError if place.exists() else FileNotFoundError
        raise problem(f"{place}: expected the folder of a model, with {EXPECTED}, and vocab.txt or tokens.txt")
    model_type = model_type or _configured(place)
    finder = _Finder(place, quantization)
    if model_type is None:
        model_type = _told_by_files(finder)
    own = {} if model_type in OURS else _names_of_onnx_asr(model_type, place, quantization)
    roles = [role for role in own if role != "vocab"] or ["model"]
    if "decoder_joint" in roles and finder.find("decoder") is not None:
        roles = ["encoder", "decoder", "joiner"]  # as sherpa-onnx has NeMo's transducers
    files = {role: finder.needed(role, own.get(role)) for role in [*roles, "vocab"]}
    if (place / CONFIG).is_file():
        files["config"] = place / CONFIG
    return Export(place, model_type, files)


class _Finder:
    """Finds the file of a role in a folder or in one of the folders in it."""

    def __init__(self, folder: Path, quantization: str | None) -> None:
        self.folder, self.quantization = folder, quantization

    def find(self, role: str, own: str | None = None) -> Path | None:
        """The file of a role, None if there is none; weights that are read are those of the file without quantisation.

        `own` is the name that onnx-asr has for it.
        """
        wanted: list[str | None] = [self.quantization]
        if self.quantization is not None and role not in ACOUSTIC:
            wanted = [None, self.quantization]
        for quantization in wanted:
            names = [name.format(q="" if quantization is None else f"?{quantization}") for name in NAMES.get(role, ())]
            if own is not None:
                plain = own if self.quantization is None else own.replace(f"?{self.quantization}", "")
                names.insert(0, plain if quantization is None else own)
            for name in (*names, *(f"*/{name}" for name in names if "/" not in name)):
                found = self._matches(name, quantization)
                if len(found) > 1:
                    shown = ", ".join(path.relative_to(self.folder).as_posix() for path in found)
                    raise ValueError(f"{self.folder}: expected one file {name}, got {shown}: keep one of them, or say "
                                     "which with model_type= or quantization=")  # fmt: skip
                if found:
                    return found[0]
        return None

    def needed(self, role: str, own: str | None = None) -> Path:
        """The file of a role; FileNotFoundError if there is none."""
        found = self.find(role, own)
        if found is not None:
            return found
        end = "" if self.quantization is None else f".{self.quantization}"
        names = dict.fromkeys(name.format(q=end) for name in (*([own] if own else ()), *NAMES.get(role, ())))
        names = dict.fromkeys(name.replace(f"?{self.quantization}", end) for name in names)
        raise FileNotFoundError(f"{self.folder}: expected a file {' or '.join(names)}, got none{self.others(role)}")

    def others(self, role: str) -> str:
        """Of an error about a missing file: the files that are quantised."""
        found = sorted(path.name for path in self.folder.glob("*.onnx") if QUANTISED.search(path.stem))
        return f"; {', '.join(found[:5])}: quantization= names one" if found and role != "vocab" else ""

    def _matches(self, name: str, quantization: str | None) -> list[Path]:
        paths: Iterable[Path] = (path for path in self.folder.glob(name) if path.is_file())
        if quantization is None:
            paths = (path for path in paths if not QUANTISED.search(path.stem))
        return sorted(paths)


def _configured(folder: Path) -> str | None:
    """The type in config.json, which sherpa-onnx's folders lack."""
    path = folder / CONFIG
    if not path.is_file():
        return None
    with reading(path, "a configuration of onnx-asr"):
        config = json.loads(read_text(path))
        found = config.get("model_type")
    if found is not None and not isinstance(found, str):
        raise FormatError(f"{path}: model_type: expected text, got {found!r}")
    return found


def _told_by_files(finder: _Finder) -> str:
    """The type by the names of the files and the inputs of the model."""
    if finder.find("encoder") is not None:
        if finder.find("decoder_joint") is not None:
            return "nemo-conformer-rnnt"
        decoder = finder.find("decoder")
        if decoder is not None and finder.find("joiner") is not None:
            return "kaldi-rnnt" if _inputs(decoder) == {"y"} else "nemo-conformer-rnnt"
    model = finder.find("model")
    if model is None:
        raise FileNotFoundError(
            f"{finder.folder}: expected {EXPECTED}, got none of these{finder.others('model')}; if the files have names "
            "of onnx-asr, give model_type="
        )
    inputs = _inputs(model)
    known = CTC_INPUTS.get(frozenset(inputs))
    if known is None:
        raise UnsupportedError(
            f"{model}: expected a CTC model with the inputs {' or '.join(', '.join(sorted(i)) for i in CTC_INPUTS)}, "
            f"got {', '.join(sorted(inputs))}: a streaming export, or the model of another toolkit, which "
            "arcbeam.Transcriber takes as an object of yours with decoder, sample_rate and encode"
        )
    return known


def _inputs(path: Path) -> set[str]:
    """Names of the inputs of an ONNX file."""
    onnx = require("onnx", f"{path}: the inputs of a model without {CONFIG}")
    with reading(path, "an ONNX model"):
        graph = onnx.load(str(path), load_external_data=False).graph
        stored = {value.name for value in graph.initializer}
        return {value.name for value in graph.input} - stored


def _names_of_onnx_asr(model_type: str, folder: Path, quantization: str | None) -> dict[str, str]:
    """onnx-asr's names of the files of a type, by their roles."""
    from onnx_asr import asr

    kind = class_of(model_type, folder)
    if not issubclass(kind, (asr._AsrWithCtcDecoding, asr._AsrWithTransducerDecoding)) or kind.__name__ == "TOneCtc":
        raise UnsupportedError(
            f"{folder}: expected a CTC model or a transducer of NeMo, GigaAM or Kaldi, got the type {model_type!r}"
        )
    names: dict[str, str] = kind._get_model_files(quantization)
    return names


def class_of(model_type: str, folder: Path) -> Any:
    """onnx-asr's class of a type; ValueError if it has none."""
    from onnx_asr import loader, utils

    try:
        return loader.create_asr_resolver(model_type, folder, offline=True).model_type
    except (utils.ModelLoadingError, ValueError) as error:
        raise ValueError(
            f"model_type: expected one that onnx-asr knows, such as nemo-conformer-ctc, nemo-conformer-rnnt, "
            f"nemo-conformer-tdt, kaldi-rnnt or gigaam-v3-ctc, or {OURS[0]}, got {model_type!r} ({error})"
        ) from None
