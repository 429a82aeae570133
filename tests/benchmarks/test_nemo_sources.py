"""Parts of NeMo load from its wheel alone, and decode what arcbeam decodes with the same LM; where torch is there."""

import sys

import numpy as np
import pytest

from arcbeam import Graph
from benchmarks.adapters import SearchOptions, nemo_sources
from benchmarks.data.graphs import GraphFiles
from tests.decode.random_graphs import random_log_probs
from tests.recipe.definitions import Model


def test_what_is_no_nemo_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "nemo", None)
    monkeypatch.delitem(sys.modules, "nemo")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(ImportError, match="NeMo is not installed: its wheel"):
        nemo_sources.find()
    (tmp_path / "nemo").mkdir()
    (tmp_path / "nemo" / "__init__.py").touch()
    with pytest.raises(ImportError, match="is not NeMo's"):
        nemo_sources.find()


def test_the_same_lm_gives_the_same_words(tmp_path):
    pytest.importorskip("torch", reason="NeMo needs torch")
    pytest.importorskip("omegaconf", reason="NeMo needs omegaconf")
    pytest.importorskip("kaldifst", reason="building graphs needs .[build]")
    try:
        from benchmarks.adapters import nemo
    except ImportError as error:
        pytest.skip(str(error))
    a, b, c = (chr(100 + i) for i in range(3))
    probabilities = {
        ("<s>",): -99.0, ("</s>",): -1.0, ("<unk>",): -9.0, (a,): -0.5, (b,): -0.75, (c,): -0.875,
        ("<s>", a): -0.25, (a, b): -0.125, (b, "</s>"): -0.375, (a, c): -1.5, ("<s>", a, b): -0.0625,
        (a, b, "</s>"): -0.25,
    }  # fmt: skip
    backoffs = {("<s>",): -0.25, (a,): -0.5, (b,): -0.125, (c,): 0.0, (a, b): -0.3125, ("<s>", a): -0.1875}
    lm = tmp_path / "lm.arpa"
    lm.write_text(Model(probabilities, backoffs, 3).arpa(), encoding="utf-8")
    graph = Graph.build(
        ["▁a", "b", "▁c", "<blank>"], None, lm, token_encoding="nemo", lm_scale=0.5, progress=False
    )  # fmt: skip
    graph.save(tmp_path / "g.arcbeam")
    files = GraphFiles("g", tmp_path / "g.arcbeam", tmp_path / "g.fst", lm)
    peer = nemo.Nemo(files, SearchOptions(lm_weight=0.5, batch=3), beam_size=16)
    batch = [random_log_probs(seed, 9, 4, sharpness=2.0) for seed in range(5)]
    said = peer.answers(peer.decode(peer.prepare(batch)))
    from arcbeam import CtcDecoder

    found = CtcDecoder(graph, beam=40.0).decode(batch)
    # Back-off arcs may be taken where the n-gram is known, which this little LM rewards now and then.
    assert all(h.score > -answer.cost - 1e-3 for h, answer in zip(found, said, strict=True))
    assert sum(np.isclose(h.score, -a.cost, atol=1e-3) for h, a in zip(found, said, strict=True)) >= 2
    assert sum(h.text == answer.text for h, answer in zip(found, said, strict=True)) >= 4
