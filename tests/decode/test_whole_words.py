"""Lattices of CTC graphs that write pieces, as lattices of words: `Lattice.whole_words`."""

import math

import numpy as np
import pytest

import arcbeam

PIECES = ["<blk>", "\u2581a", "b", "\u2581", "\u2581ab", "c"]


def lattice_of(seed, *, weight=0.0):
    """Of five frames, with a graph in which each piece may follow any other; repeats write nothing."""
    arcs = [(0, 0, 1, 0, 0.0)]
    for piece in range(1, len(PIECES)):
        arcs += [(s, piece, piece + 1, piece, weight * piece) for s in range(len(PIECES)) if s != piece]
        arcs += [(piece, piece, piece + 1, 0, 0.0), (piece, 0, 1, 0, 0.0)]
    graph = arcbeam.Graph.from_arcs(
        arcs, finals=dict.fromkeys(range(len(PIECES)), 0.25), tokens=PIECES, blank=0, join="pieces", separator="\u2581",
        word_symbols=["<eps>", *PIECES[1:]],
    )  # fmt: skip
    logits = np.random.default_rng(seed).normal(size=(5, len(PIECES))).astype(np.float32) * 1.5
    log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    decoder = arcbeam.CtcDecoder(graph, device="cpu", beam=math.inf, max_active=1000, lattice_beam=6.0)
    return decoder.decode(log_probs, lattice=True).lattice


def joined(lattice):
    """{text: (best score, sum of posteriors)} of all sequences of pieces."""
    found = {}
    for entry in lattice.nbest(100_000):
        score, posterior = found.get(entry.text, (-math.inf, 0.0))
        found[entry.text] = max(score, entry.score), posterior + entry.posterior
    return found


@pytest.mark.parametrize("seed", range(5))
def test_texts_and_scores_stay(seed):
    lattice = lattice_of(seed, weight=0.125)
    texts, words = joined(lattice), lattice.whole_words()
    entries = words.nbest(100_000)
    assert len(texts) > 20 and {entry.text for entry in entries} == texts.keys()
    assert len(entries) == len(texts)
    for entry in entries:
        score, posterior = texts[entry.text]
        assert entry.score == pytest.approx(score, abs=1e-5)
        assert entry.posterior == pytest.approx(posterior, abs=1e-6)
    assert (words.text, words.num_frames, words.lattice_beam) == (lattice.text, 5, 6.0)
    assert np.isfinite(words.final_scores).sum() > 0
    assert words.final_graph_scores[np.isfinite(words.final_scores)] == pytest.approx(-0.25)


@pytest.mark.filterwarnings("ignore:.*do not sum to 1:UserWarning", "ignore:.*no <unk>:UserWarning")
def test_a_model_of_words(tmp_path):
    (tmp_path / "words.arpa").write_text(
        "\\data\\\nngram 1=6\n\n\\1-grams:\n-2\t<unk>\n-99\t<s>\n-1\t</s>\n-0.5\ta\n-1\tab\n-0.25\tabc\n\n\\end\\\n"
    )
    model = arcbeam.LanguageModel.build(tmp_path / "words.arpa", progress=False)
    lattice = lattice_of(3)
    rescored = lattice.whole_words().rescore(model, lm_scale=0.5, unknown_words="unk")
    expected = {
        text: score + 0.5 * model.score([word if word in model else "<unk>" for word in text.split()])
        for text, (score, _) in joined(lattice).items()
    }
    found = {entry.text: entry.score for entry in rescored.nbest(100_000)}
    assert rescored.text == max(expected, key=expected.get)
    for text, score in expected.items():
        if score > max(expected.values()) - rescored.lattice_beam:
            assert found[text] == pytest.approx(score, abs=1e-5)
        else:
            assert found.get(text, -math.inf) <= score + 1e-5
