"""Language models of ``arcbeam decode``: takes files of any kind, returns a decoder that uses them."""

import os
import stat
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from arcbeam.cli.console import Failure
from arcbeam.cli.terminal import note, steps

if TYPE_CHECKING:
    from arcbeam import CtcDecoder, Graph, LanguageModel
    from arcbeam.ctc.rescoring import LargeModel


def check_given(large: Path | None, small: Path | None) -> None:
    """Fail before anything is loaded if a large model lacks the one that the graph was built with."""
    if large is not None and small is None:
        raise typer.BadParameter(
            "needs --graph-language-model, the ARPA that the graph was built with: its scores are subtracted",
            param_hint="'--language-model'",
        )


def read_head(path: Path) -> bytes:
    """Return the first bytes of a file that can be read again."""
    with path.open("rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise Failure(f"{path}: expected a regular file, not a pipe or a device")
        return file.read(64)


def load_large(path: Path, max_bytes: str | None) -> "LargeModel":
    """Load a model of any kind; the file's first bytes say which. From an ARPA file the model is built."""
    from arcbeam import KenLM
    from arcbeam.lm import kenlm_file

    return KenLM(path) if read_head(path).startswith(kenlm_file.MAGIC) else load(path, max_bytes)


def load(path: Path, max_bytes: str | None) -> "LanguageModel":
    """Load a model of arcbeam, or build it from an ARPA file, which unpacked may have up to `max_bytes`."""
    from arcbeam import LanguageModel
    from arcbeam.graph import graph_file
    from arcbeam.lm import kenlm_file, lm_file

    head = read_head(path)
    if lm_file.KIND.begins(head):
        with steps(f"loading {path}"):
            return LanguageModel.load(path)
    if graph_file.KIND.begins(head):
        raise Failure(f"{path}: expected a language model, got a graph")
    if head.startswith(kenlm_file.MAGIC):
        raise Failure(f"{path}: expected the graph's own model, as ARPA or from build-lm, got KenLM's binary format")
    note(f"building {path}; build-lm makes a file that loads at once")
    return build_model(path, max_bytes)


def build_model(arpa: Path, max_bytes: str | None) -> "LanguageModel":
    """Build a model from its ARPA file, with progress."""
    from arcbeam import LanguageModel
    from arcbeam.cli.graphs import build_steps

    with build_steps(f"reading {arpa}") as tell, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the progress of the build includes these notes
        return LanguageModel.build(arpa, progress=tell, max_bytes=max_bytes)


def make_decoders(
    graph: "Graph",
    large: Path | None,
    small: Path | None,
    settings: dict[str, Any],
    devices: Sequence[str],
    max_bytes: str | None = None,
) -> "list[CtcDecoder]":
    """Return a decoder for each device, with the models of these files, if there are any."""
    from arcbeam import CtcDecoder

    models: dict[str, Any] = {}
    if large is not None and small is not None:
        read_head(large)  # finds a missing file before the small model is built, which may take a while
        models = {"graph_language_model": load(small, max_bytes), "language_model": load_large(large, max_bytes)}
    return [CtcDecoder(graph, **models, **{**settings, "device": device}) for device in devices]
