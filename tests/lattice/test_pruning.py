"""A pruned lattice is the lattice of a search with the smaller beam, byte for byte."""

import math

import numpy as np
import pytest

from arcbeam import Graph
from arcbeam.ctc.lattice import _lattice
from arcbeam.ctc.lattice._lattices import Lattices
from tests.decode import graphs, lattice_oracle
from tests.decode.lattices import packed

COLUMNS = 5


def exact_graph(rng, states=40):
    """A random graph whose weights are multiples of 1/64, with epsilon arcs between final states."""
    n = 5 * states
    source, target = rng.integers(0, states, n), rng.integers(0, states, n)
    labels = np.where((rng.random(n) < 0.25) & (source < target), 0, rng.integers(1, COLUMNS + 1, n))
    weights = rng.integers(0, 128, n) / 64
    finals = {int(state): float(rng.integers(0, 256)) / 64 for state in rng.integers(0, states, states // 2)}
    return Graph.from_arcs(
        (source, target, labels, rng.integers(0, 4, n), weights), finals=finals, num_states=states, num_columns=COLUMNS
    )


def searched(graph, logp, lattice_beam):
    return Lattices.of_arrays([lattice_oracle.decode(graph, logp, beam=8.0, lattice_beam=lattice_beam)])


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("beam", [0.0, 0.5, 1.0, 3.0, 50.0, math.inf])
def test_is_a_search_with_a_smaller_beam(seed, beam):
    rng = np.random.default_rng(seed)
    graph, logp = exact_graph(rng), (rng.integers(-256, 0, (6, COLUMNS)) / 64).astype(np.float32)
    pruned = _lattice.prune(searched(graph, logp, 6.0), 0, beam)[0].arrays(0)
    assert packed(pruned) == packed(searched(graph, logp, min(beam, 6.0)).arrays(0))


@pytest.mark.parametrize("seed", range(3))
def test_is_a_search_with_a_smaller_beam_on_real_weights(seed):
    graph, logp = graphs.random_graph(seed, states=60, columns=12), graphs.random_log_probs(seed, 6, 12)
    pruned = _lattice.prune(searched(graph, logp, 6.0), 0, 2.5)[0].arrays(0)
    assert packed(pruned) == packed(searched(graph, logp, 2.5).arrays(0))
