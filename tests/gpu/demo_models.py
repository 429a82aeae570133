"""The demo's letters with the novels' 3-gram over the graph of a pruned one."""

import tempfile
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import arcbeam
from data import arpa_prune

DEMO = Path(__file__).resolve().parents[2] / "data" / "demo"


@cache
def demo_speech():
    """Graph, both models as options of a decoder, and log-probs of the demo's utterances."""
    pytest.importorskip("kaldifst", reason="the demo's graph needs .[build]")
    from arcbeam.recipe.lexicon import Lexicon
    from arcbeam.recipe.word_lists import words_of_arpa

    tokens, large = arcbeam.TokenTable.read(DEMO / "tokens.txt"), DEMO / "novels.3gram.arpa.xz"
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pruned = Path(folder, "small.arpa")
        arpa_prune.prune_file(large, pruned, 1e-5)
        graph = arcbeam.Graph.build(tokens, Lexicon.spell(words_of_arpa(pruned), tokens), pruned)
        models = {
            "language_model": arcbeam.LanguageModel.build(large, progress=False),
            "graph_language_model": arcbeam.LanguageModel.build(pruned, progress=False),
        }
    with np.load(DEMO / "log_probs.npz") as data:
        batch = np.split(data["log_probs"].astype(np.float32), np.cumsum(data["lengths"])[:-1])
    return graph, models, batch
