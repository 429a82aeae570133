"""The language models of the rescoring experiments on a GPU: of a graph, of its whole text, and larger ones."""

from functools import cache
from pathlib import Path

import arcbeam
from benchmarks.data import graphs
from benchmarks.data.datasets import CACHE, DataMissing, data_folder

FOLDER = CACHE / "lm"
LARGE = "books.3gram.arpa.xz"  # of the data sets


def _built(arpa: Path) -> Path:
    """The file of an ARPA's model, built into the cache on first use."""
    if not arpa.exists():
        raise DataMissing(f"{arpa} is not there")
    path = FOLDER / f"{arpa.name.split('.arpa')[0]}.lm"
    FOLDER.mkdir(parents=True, exist_ok=True)
    with graphs.one_at_a_time(path.name):
        if not path.exists():
            arcbeam.LanguageModel.build(arpa).save(path)
    return path


def files(graph: str) -> dict[str, Path]:
    """The files of both models of a graph of SentencePiece models (``spm512-3gram``), as options of a decoder.

    Raises
    ------
    DataMissing
        A model's ARPA is not there; that of the graph is made with the graph.
    """
    small = graphs.files(graph).lm
    if small is None:
        raise DataMissing(f"{graph}: the language model of the graph is not known")
    return {"language_model": _built(data_folder() / "lm" / LARGE), "graph_language_model": _built(small)}


@cache
def load(graph: str) -> dict[str, "arcbeam.LanguageModel"]:
    """Both models of such a graph. Raises DataMissing."""
    return {option: arcbeam.LanguageModel.load(path) for option, path in files(graph).items()}


def large() -> "arcbeam.LanguageModel":
    """The unpruned model. Raises DataMissing."""
    return arcbeam.LanguageModel.load(_built(data_folder() / "lm" / LARGE))


@cache
def kenlm() -> "arcbeam.KenLM":
    """KenLM's model of the same text, from the ARPA. Raises DataMissing, MissingDependencyError."""
    arpa = data_folder() / "lm" / LARGE
    if not arpa.exists():
        raise DataMissing(f"{arpa} is not there")
    return arcbeam.KenLM(arpa)
