"""KL14 Table 1: sizes of graphs and language models.

The graphs of the experiments after this paper, each beside the model that it was built from: the bigram that the small
3-gram contains, the small 3-gram, and the 3-gram of the books, the largest model whose graph was built; then the large
model, which has no graph. Files are arcbeam's own, KenLM's binaries beside them where they are there; the index is what
of a model a GPU holds when its arcs stay with the host.
"""

from collections.abc import Iterator
from pathlib import Path

import arcbeam
from benchmarks.data import graphs
from benchmarks.engine import rescoring_models
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import lm_task

ORDER, PAPER = 1, "KL14"
TITLE = "Table 1: sizes of graphs and language models"
TAKES = lm_task.TAKES
COLUMNS = [
    Column("model", "model"),
    Column("n-grams", "ngrams"),
    Column("in all", "total", "{:,}"),
    Column("states of its graph", "states", "{:,}"),
    Column("arcs of its graph", "arcs", "{:,}"),
    Column("graph, MB", "graph_mb", "{:,.1f}"),
    Column("ARPA, MB", "arpa_mb", "{:,.1f}"),
    Column("model, MB", "lm_mb", "{:,.1f}"),
    Column("its index, MB", "index_mb", "{:,.1f}"),
    Column("index, %", "index_share", "{:.1f}"),
    Column("KenLM probing, MB", "probing_mb", "{:,.1f}"),
    Column("KenLM trie, MB", "trie_mb", "{:,.1f}"),
    Column("status", "status"),
]


def megabytes(path: Path | None) -> float | None:
    return path.stat().st_size / 1e6 if path is not None and path.exists() else None


def row_of(name: str, model: "arcbeam.LanguageModel", graph: Path | None, arpa: Path | None, folder: Path) -> Row:
    from arcbeam.lm import lm_file

    said = model.info()
    index = sum(model.columns[column].nbytes for column in lm_file.INDEX) / 1e6
    row: Row = {
        "model": name,
        "ngrams": " / ".join(f"{n:,}" for n in model.about["ngrams"]),
        "total": sum(model.about["ngrams"]),
        "arpa_mb": megabytes(arpa) if arpa is not None and arpa.suffix == ".arpa" else None,
        "lm_mb": said.bytes / 1e6,
        "index_mb": index,
        "index_share": 100 * index / (said.bytes / 1e6),
    }
    for kind in ("probing", "trie") if arpa is not None else ():
        row[f"{kind}_mb"] = megabytes(folder / f"{arpa.name.split('.arpa')[0]}.{kind}")
    if graph is not None:
        loaded = arcbeam.Graph.load(graph)
        row |= {"states": loaded.num_states, "arcs": loaded.num_arcs, "graph_mb": megabytes(graph)}
    return row


def run(context: Context) -> Iterator[Row]:
    folder = lm_task.folder_of(context)
    task = lm_task.load(context, ("bigram", "small"))
    for name, label in (("bigram", "bigram"), ("small", "small 3-gram")):
        yield row_of(label, task.small[name], folder / f"{name}.arcbeam", folder / f"{name}.arpa", folder)
    books = graphs.files("char-3gram")
    if books.arcbeam.exists():
        yield row_of("3-gram of the books", rescoring_models.large(), books.arcbeam, books.lm, folder)
    else:
        yield {"model": "3-gram of the books", "status": "missing: python -m benchmarks.build_graphs char-3gram"}
    if folder.name != "books-lm":
        yield row_of("large model", task.models["language_model"], None, folder / "large.arpa", folder)
