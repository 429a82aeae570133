"""Language models by path; the first bytes of a file say which kind it is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from arcbeam.core.checks import check_path
from arcbeam.core.errors import FormatError
from arcbeam.files.reading import check_is_file
from arcbeam.lm import kenlm_file, lm_file
from arcbeam.lm.kenlm import KenLM
from arcbeam.lm.language_model import LanguageModel

if TYPE_CHECKING:
    from typing import TypeAlias

    StrPath: TypeAlias = str | os.PathLike[str]


def as_language_model(name: str, model: StrPath | LanguageModel) -> LanguageModel:
    """A model itself, or the model in a file: a file of `LanguageModel.save` is mapped, a model of an ARPA is built."""
    if isinstance(model, LanguageModel):
        return model
    if not isinstance(model, (str, os.PathLike)):
        raise TypeError(f"{name}: expected an arcbeam.LanguageModel or a path, got {type(model).__name__}")
    head = _head(model)
    if lm_file.KIND.begins(head):
        return LanguageModel.load(model)
    if head.startswith(kenlm_file.MAGIC):
        raise FormatError(
            f"{os.fspath(model)}: {name}: expected an ARPA or a file of LanguageModel.save, got KenLM's binary format"
        )
    return LanguageModel.build(model, progress=False)


def as_large_model(name: str, model: StrPath | LanguageModel | KenLM) -> LanguageModel | KenLM:
    """The model that is given or named by a path; a file in KenLM's binary format becomes a `KenLM`."""
    if isinstance(model, KenLM):
        return model
    if isinstance(model, (str, os.PathLike)) and _head(model).startswith(kenlm_file.MAGIC):
        return KenLM(model)
    if not isinstance(model, (str, os.PathLike, LanguageModel)):
        got = type(model).__name__
        raise TypeError(f"{name}: expected an arcbeam.LanguageModel, an arcbeam.KenLM or a path, got {got}")
    return as_language_model(name, model)


def as_kenlm(name: str, model: StrPath | KenLM | None) -> KenLM | None:
    """A KenLM: the given one, or that of a file (an ARPA, or KenLM's binary format), or None."""
    if model is None or isinstance(model, KenLM):
        return model
    if not isinstance(model, (str, os.PathLike)):
        raise TypeError(f"{name}: expected an arcbeam.KenLM, a path or None, got {type(model).__name__}")
    if lm_file.KIND.begins(_head(model)):
        raise FormatError(
            f"{os.fspath(model)}: {name}: expected an ARPA or KenLM's binary format, got a file of LanguageModel.save"
        )
    return KenLM(model)


def arpa_of(model: StrPath | LanguageModel | KenLM) -> StrPath:
    """The ARPA file from which a model was made; a path is returned as it is."""
    if isinstance(model, KenLM):
        if kenlm_file.is_binary(model.path):
            raise ValueError(f"lm: expected a model that was made from an ARPA, got {model!r}; give the ARPA's path")
        return model.path
    if not isinstance(model, LanguageModel):
        check_path("lm", model, "the path of an ARPA, an arcbeam.LanguageModel or an arcbeam.KenLM")
        return model
    if model.arpa is None:
        raise ValueError(f"lm: expected a model that LanguageModel.build made, got {model!r}; give the ARPA's path")
    return model.arpa


def _head(path: StrPath) -> bytes:
    check_is_file(path)
    with open(os.fspath(path), "rb") as file:
        return file.read(64)
