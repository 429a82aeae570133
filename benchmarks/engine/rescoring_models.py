"""The language models of the rescoring experiments on a GPU: of a graph, of its whole text, and larger ones."""

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import arcbeam
from benchmarks.data import graphs
from benchmarks.data.datasets import CACHE, DataMissing, data_folder
from benchmarks.engine import placements
from benchmarks.harness import seeds
from benchmarks.harness.registry import Row
from data import closed_lm

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


def closed(
    models: Mapping[str, Any], ngrams: int, say: Callable[[str], None], with_kenlm: bool = True
) -> tuple[dict[str, Any], dict[str, Row]]:
    """The models with the large one made larger, to about so many n-grams, and KenLM's of the same n-grams (or None).

    Both are in memory: KenLM maps its file, whose name goes at once. Returns also what rows say of them, of "ours" and
    of "kenlm": seconds until each was there, and gigabytes of KenLM's.
    """
    say(f"making a model of {ngrams:,} n-grams")
    began = time.monotonic()
    made, pairs = closed_lm.close(models["language_model"], ngrams, seeds.used("the closed model", 0))
    facts: dict[str, Row] = {"ours": {"made_s": time.monotonic() - began}, "kenlm": {}}
    larger = dict(models) | {"language_model": made, placements.KENLM: None}
    if not with_kenlm:
        return larger, facts
    say(f"{made.info().bytes:,} bytes; making KenLM's")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=roomy(20 * ngrams)) as folder:
        path = Path(folder, "closed.probing")

        def write() -> "arcbeam.KenLM":
            closed_lm.write_kenlm(made, pairs, data_folder() / "lm" / LARGE, path)
            return arcbeam.KenLM(path)

        larger[placements.KENLM] = placements.kenlm(write, say)
        if path.exists():
            facts["kenlm"] = {"made_s": time.monotonic() - began, "model_gb": path.stat().st_size / 1e9}
    return larger, facts


def roomy(size: int) -> str | None:
    """The folder of files that are kept in memory, if it has room for so many bytes twice; None for the usual one."""
    memory = Path("/dev/shm")
    return str(memory) if memory.is_dir() and shutil.disk_usage(memory).free > 2 * size else None
