import numpy as np
import pytest

from arcbeam import Graph, _stages
from arcbeam.ctc.options import DecoderOptions
from arcbeam.ctc.rescoring import Rescoring
from tests.decode import rescoring_oracle
from tests.decode.language_models import random_model
from tests.decode.test_rescoring import WORDS, with_words


@pytest.fixture(scope="module")
def rescoring():
    rng = np.random.default_rng(1)
    large, small = random_model(rng, WORDS, 3, share=0.7), random_model(rng, WORDS, 2)
    arcs = [(0, 1, 1, 0, 0.0), (0, 1, 2, 1, 0.0), (0, 2, 3, 2, 0.0), (1, 2, 4, 3, 0.0)]
    graph = with_words(Graph.from_arcs(arcs, finals={2: 0.0}, num_columns=4), small)
    return graph, Rescoring(graph, large, small, DecoderOptions())


def test_against_the_definition(rescoring):
    graph, both = rescoring
    rng = np.random.default_rng(2)
    deviations = rescoring_oracle.Deviations(graph, both.large, both.small)
    histories = np.zeros(50, _stages.HISTORY)
    histories["large"] = rng.integers(0, both.large.num_states, 50)
    histories["small"] = rng.integers(0, both.small.num_states, 50)
    rows = np.zeros(400, _stages.CANDIDATE)
    rows["cost"] = rng.integers(0, 8, 400)
    rows["cost"][::9] = np.inf
    rows["arc"] = rng.integers(0, 4, 400)
    rows["source"] = 1000 + rng.integers(0, 50, 400)
    kept, found, work = _stages.lookup(graph, both, rows, 5.0, histories, 1000)
    assert kept.tobytes() == rows[rows["cost"] <= 5.0].tobytes()
    words = graph.words[kept["arc"]]
    for candidate, got, word in zip(kept, found, words.tolist(), strict=True):
        history = tuple(int(x) for x in histories[candidate["source"] - 1000])
        wanted = deviations(history, word) if word else (0.0, history)
        assert (got["cost"], tuple(int(x) for x in got["next"])) == wanted
    assert work["lookups"] == np.count_nonzero(words)
    assert 0 < work["lookup_misses"] <= 3 * len(set(histories.tolist()))


def test_arcs_without_a_word_are_not_looked_up(rescoring):
    graph, both = rescoring
    silent = np.zeros(3, _stages.CANDIDATE)
    _, found, work = _stages.lookup(graph, both, silent, np.inf, np.array([(3, 1)], _stages.HISTORY), 0)
    assert work["lookups"] == 0 and found["cost"].tolist() == [0.0] * 3
    assert [tuple(row) for row in found["next"].tolist()] == [(3, 1)] * 3
