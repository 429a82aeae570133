"""The graph of a SentencePiece workload, small: what its best paths say is what the pieces of the text say."""

import lzma

import numpy as np
import pytest

from arcbeam import CtcDecoder
from data.make_bpe_graph import bpe_graph
from data.pieces import Pieces, train_sentencepiece

pytest.importorskip("kaldifst", reason="building graphs needs .[build]")
pytest.importorskip("sentencepiece", reason="pieces need .[build]")


def test_the_pieces_of_a_text_decode_to_its_words(demo_data, tmp_path):
    lm = demo_data / "novels.3gram.arpa.xz"
    with lzma.open(lm, "rt", encoding="utf-8") as file:
        unigrams = (line.split("\t")[1] for line in file if line.count("\t") >= 1)
        words = [w for w, _ in zip(unigrams, range(400), strict=False) if w not in ("<s>", "</s>", "<unk>")]
    model = tmp_path / "spm.model"
    train_sentencepiece([" ".join(words[i::7]) for i in range(7)] * 20, 64, model)
    graph = bpe_graph(model, words, lm, prune=1e-4)
    pieces = Pieces(model)
    text = " ".join(words[20:32])
    ids = [i for word in text.split() for i in pieces.encode(word)]
    rows = np.full((2 * len(ids), graph.num_columns), -30.0, dtype=np.float32)
    rows[::2, graph.blank] = 0.0
    rows[np.arange(1, len(rows), 2), ids] = 0.0
    (found,) = CtcDecoder(graph, beam=30.0).decode([rows])
    assert found.text == text
