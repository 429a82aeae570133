"""Lattices on a real GPU: the CPU engine's bytes, wherever a large language model lives, and while everything grows."""

import math

import pytest

from arcbeam import CtcDecoder
from arcbeam.gpu.tuned import search_plan
from tests.decode.lattices import lattices, packed
from tests.decode.random_graphs import random_graph, random_log_probs
from tests.gpu.test_decode_on_gpu import SEARCHES
from tests.gpu.test_rescoring_on_gpu import PLACES, made

BATCH = [random_log_probs(seed, 1 + 37 * seed % 101, 12) for seed in range(40)]


def agree(graph, batch, gpu_options=None, **options):
    of_gpu = lattices(CtcDecoder(graph, device="cuda", **(gpu_options or {}), **options), batch)
    of_cpu = lattices(CtcDecoder(graph, device="cpu", **options), batch)
    assert [packed(lattice) for lattice in of_gpu] == [packed(lattice) for lattice in of_cpu]
    assert sum(len(lattice["links"]) for lattice in of_gpu) > 0


@pytest.mark.parametrize("options", SEARCHES)
@pytest.mark.parametrize("lattice_beam", [0.0, 4.0, 8.0, math.inf])
def test_searches(room, options, lattice_beam):
    agree(random_graph(1), [random_log_probs(seed, 60, 32) for seed in range(9)], lattice_beam=lattice_beam, **options)


@pytest.mark.parametrize("shape", [search_plan.WIDE, search_plan.DENSE, search_plan.CLUSTER])
def test_shapes(room, monkeypatch, shape):
    monkeypatch.setattr(search_plan, "launch_shapes", lambda *_: (shape, search_plan.WIDE))
    monkeypatch.setattr(search_plan, "TEAM_TOKENS", 16)
    agree(random_graph(4, states=200, columns=12), BATCH, beam=9.0, max_active=60)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("n", [2, None])
def test_rescored(room, place, n):
    graph, models = made(2, 300, 12)
    where = {"placement": place[0], "arc_cache": place[1], "gpu_budget": place[2]}
    agree(graph, BATCH, where, beam=7.0, max_active=60, hypotheses_per_state=n, **models)
