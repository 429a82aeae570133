"""Streams on a real GPU: after every chunk, and in lattices at the end of each sentence, the CPU engine's bytes."""

import numpy as np
import pytest

from arcbeam.gpu.tuned import search_plan
from tests.decode import test_stream_lattices_emulated as lattices
from tests.decode.random_graphs import random_graph, random_log_probs
from tests.decode.test_stream_lattices import REQUESTED
from tests.decode.test_stream_lattices_emulated import INTERIM, LATTICES, SOME, small_states
from tests.decode.test_streams import BATCH, GRAPH, boost
from tests.decode.test_streams_emulated import OPTIONS, on_both, posteriors
from tests.gpu.test_decode_on_gpu import SEARCHES

PRUNINGS = (0, 64, search_plan.STREAM_PRUNE_ABOVE)
pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning", "ignore:log_probs. expected:UserWarning")


@pytest.fixture(params=[None, *PRUNINGS], ids="pruned above {}".format)
def options(request, monkeypatch):
    """Of streams without lattices, and with them, whose states are pruned above so many tokens."""
    if request.param is None:
        return OPTIONS
    small_states(monkeypatch, request.param)
    return LATTICES | {"requested": SOME}


@pytest.mark.parametrize("boosted", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_chunks(room, options, seed, boosted):
    boosts = [boost(i) if i % 3 else None for i in range(len(BATCH))] if boosted else None
    on_both(BATCH, np.random.default_rng(seed), boosts, **options)


@pytest.mark.parametrize("boosted", [False, True])
def test_posteriors(room, boosted):
    posteriors(boosted, lattice_beam=4.0)


@pytest.mark.parametrize(
    ("requested", "more"), [([{"posteriors": True}, {}], {}), ([REQUESTED | INTERIM], {"lattice_beam": 4.0})]
)
@pytest.mark.parametrize("search", SEARCHES)
def test_searches(room, search, requested, more):
    batch = [random_log_probs(seed, 1 + 37 * seed % 101, 32) for seed in range(40)]
    on_both(batch, np.random.default_rng(1), None, random_graph(1), 30, requested=requested, **search | more)


@pytest.mark.parametrize("shape", [search_plan.WIDE, search_plan.DENSE, search_plan.CLUSTER])
def test_shapes_and_states_that_grow(room, options, monkeypatch, shape):
    monkeypatch.setattr(search_plan, "STREAM_TOKENS", 1)
    monkeypatch.setattr(search_plan, "STREAM_ENTRIES", 1)
    monkeypatch.setattr(search_plan, "launch_shapes", lambda *_: (shape, search_plan.WIDE))
    monkeypatch.setattr(search_plan, "TEAM_TOKENS", 16)
    on_both(BATCH, np.random.default_rng(5), None, GRAPH, **options)


@pytest.mark.parametrize("prune_above", PRUNINGS)
def test_sentences_with_lattices(room, monkeypatch, prune_above):
    small_states(monkeypatch, prune_above)
    lattices.sentences()
