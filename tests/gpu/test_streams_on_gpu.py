"""Streams on a real GPU: after every chunk the CPU engine's bytes, in any company and with states that grow."""

import numpy as np
import pytest

from arcbeam.gpu.devices import why_no_cuda
from arcbeam.gpu.tuned import search_plan
from tests.decode.random_graphs import random_graph, random_log_probs
from tests.decode.test_streams import BATCH, GRAPH, boost
from tests.decode.test_streams_emulated import OPTIONS, on_both, posteriors
from tests.gpu.test_decode_on_gpu import SEARCHES, TIGHT

AS_SHIPPED = search_plan.first_room(0)
pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")


@pytest.fixture(scope="module", autouse=True)
def needs_kernels(gpu):
    reason = why_no_cuda(gpu)
    if reason:
        pytest.skip(f"no kernels for this GPU: {reason}")


@pytest.fixture(params=[TIGHT, AS_SHIPPED], ids=["tight", "as shipped"])
def room(request, monkeypatch):
    monkeypatch.setattr(search_plan, "first_room", lambda max_active: request.param)


@pytest.mark.parametrize("boosted", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_chunks(room, seed, boosted):
    boosts = [boost(i) if i % 3 else None for i in range(len(BATCH))] if boosted else None
    on_both(BATCH, np.random.default_rng(seed), boosts, **OPTIONS)


@pytest.mark.parametrize("boosted", [False, True])
def test_posteriors(room, boosted):
    posteriors(boosted, lattice_beam=4.0)


@pytest.mark.parametrize("options", SEARCHES)
def test_searches(room, options):
    batch = [random_log_probs(seed, 1 + 37 * seed % 101, 32) for seed in range(40)]
    asked = [{"posteriors": True}, {}]
    on_both(batch, np.random.default_rng(1), None, random_graph(1), 30, asked=asked, **options)


@pytest.mark.parametrize("shape", [search_plan.WIDE, search_plan.DENSE, search_plan.CLUSTER])
def test_shapes_and_states_that_grow(room, monkeypatch, shape):
    monkeypatch.setattr(search_plan, "STREAM_TOKENS", 1)
    monkeypatch.setattr(search_plan, "STREAM_ENTRIES", 1)
    monkeypatch.setattr(search_plan, "launch_shapes", lambda *_: (shape, search_plan.WIDE))
    monkeypatch.setattr(search_plan, "TEAM_TOKENS", 16)
    on_both(BATCH, np.random.default_rng(5), None, GRAPH, **OPTIONS)
