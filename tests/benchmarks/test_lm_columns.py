"""Packed columns of a language model come apart, and together again, as the same bytes."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from arcbeam import LanguageModel
from data import closed_lm, lm_columns


@pytest.mark.parametrize("bits", [2, 8])
def test_planes_of_bits(bits):
    values = np.random.default_rng(0).integers(0, 1 << bits, 1001).astype(np.uint32)
    planes = lm_columns.pack(values, bits)
    assert lm_columns.unpack(planes, bits, 1001).tolist() == values.tolist()
    with ThreadPoolExecutor(2) as workers:
        assert lm_columns.packed(values.astype("u1"), bits, workers).tobytes() == planes.tobytes()


def test_the_index_of_a_real_model(demo_data):
    model = LanguageModel.build(demo_data / "novels.3gram.arpa.xz", progress=False)
    first = lm_columns.first_arcs(model.columns, model.num_states + 1)
    backoffs = lm_columns.backoff_states(model.columns, model.num_states)
    assert first[0] == 0 and first[-1] == model.num_arcs and (np.diff(first) >= 0).all()
    assert (backoffs < np.maximum(np.arange(len(backoffs)), 1)).all(), "histories back off to shorter ones"
    for name, column in lm_columns.index_of(first, backoffs).items():
        assert column.tobytes() == model.columns[name].tobytes(), name


def test_an_index_with_large_steps():
    """Some blocks have no room for what they hold, and lie apart."""
    rng = np.random.default_rng(1)
    first = np.concatenate([[0], np.cumsum(rng.integers(0, 60, 1000))])
    backoffs = np.cumsum(rng.integers(0, 3, 1000))
    backoffs[500:] += 10**6
    columns = lm_columns.index_of(first, backoffs)
    assert len(columns["first.wide"]) and len(columns["backoff.wide"])
    assert lm_columns.first_arcs(columns, len(first)).tolist() == first.tolist()
    assert lm_columns.backoff_states(columns, len(backoffs)).tolist() == backoffs.tolist()


@pytest.mark.filterwarnings("ignore:.*do not sum to 1")
def test_labels(demo_data):
    """With planes of bits, for words beyond 65 535, and without."""
    model = LanguageModel.build(demo_data / "novels.3gram.arpa.xz", progress=False)
    labels = lm_columns.labels_of(model.columns, model.about["high_bits"])
    words = model.about["num_labels"] - 1
    assert labels[: words + 1].tolist() == list(range(1, words + 2)), "state 0 has an arc for every label"
    assert labels.max() == words + 1 and len(labels) == model.num_arcs
    with pytest.raises(ValueError, match="ngrams: expected less than 2,147,483,648, got 2,147,483,648"):
        closed_lm.close(model, 1 << 31)
