"""A model made larger is a model, and says what the given one says, but for words that it lists after new histories."""

import numpy as np
import pytest

from arcbeam import LanguageModel
from arcbeam.lm_file import check
from data.inflated_lm import inflate, pack, unpack
from tests.decode.language_models import random_model

WORDS = [f"w{i}" for i in range(300)]


def test_planes_of_bits():
    values = np.random.default_rng(0).integers(0, 4, 1001).astype(np.uint32)
    assert unpack(pack(values, 2), 2, 1001).tolist() == values.tolist()


@pytest.mark.parametrize("ngrams", [10_000, 80_000])
def test_what_it_says(ngrams):
    rng = np.random.default_rng(1)
    model = random_model(rng, WORDS, 2, share=0.02)
    large = inflate(model, ngrams)
    check(large.columns, large.about)
    assert large.order == model.order + 1
    assert abs(large.num_arcs - ngrams) < model.num_arcs
    same = other = 0
    for _ in range(300):
        sentence = [WORDS[i] for i in rng.integers(0, 300, 5)]
        wanted, got = (np.array([w.log_prob for w in one.score_words(sentence)]) for one in (model, large))
        same, other = same + int((wanted == got).sum()), other + int((wanted != got).sum())
    assert same > 3 * other


def test_a_real_model_with_high_labels(demo_data):
    model = LanguageModel.build(demo_data / "novels.3gram.arpa.xz")
    large = inflate(model, 2_000_000)
    check(large.columns, large.about)
    assert large.score("and mister john dashwood") == pytest.approx(model.score("and mister john dashwood"), abs=1e-3)
