"""Tiny graphs and sets, which experiments get for every name that they load."""

import numpy as np

from arcbeam import Graph, SymbolTable
from benchmarks.data import datasets, graphs
from tests.decode.random_graphs import random_graph

WORDS = [f"w{i}" for i in range(1, 50)]


def graph_of_words(path, words=WORDS, language_model=None):
    """A random graph of 12 columns whose words have names, and perhaps a language model: its files."""
    symbols = SymbolTable.from_list(["<eps>", *words])
    meta = {} if language_model is None else {"lm_digest": language_model.digest}
    Graph(**random_graph(4, states=120, columns=12).fields() | {"word_symbols": symbols, "meta": meta}).save(path)
    return graphs.GraphFiles(path.stem, path, path.with_suffix(".fst"))


def dataset_of(name, batch, texts, dtype=np.float32, tokens=()):
    ids = [f"u{i}" for i in range(len(batch))]
    lengths = np.array([len(one) for one in batch])
    return datasets.Dataset(name, np.concatenate(batch).astype(dtype), lengths, ids, texts, 0.04, list(tokens))


def give(monkeypatch, files=None, dataset=None):
    """Every graph is this one, and every set what this makes of its name and the number of utterances."""
    if files is not None:
        monkeypatch.setattr(graphs, "get", lambda name, progress=None: files)
    if dataset is not None:
        monkeypatch.setattr(datasets, "load", dataset)
