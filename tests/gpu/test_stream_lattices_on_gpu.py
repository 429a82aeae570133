"""Lattices of streams on a real GPU: at the end of each sentence the CPU engine's bytes, wherever a model lives."""

import numpy as np
import pytest

from arcbeam.gpu.tuned import search_plan
from tests.decode import test_stream_lattices_emulated as plain
from tests.decode.random_graphs import random_graph, random_log_probs
from tests.decode.test_stream_lattices import ASKED
from tests.decode.test_stream_lattices_emulated import INTERIM, LATTICES, SOME
from tests.decode.test_streams import BATCH, GRAPH, boost
from tests.decode.test_streams_emulated import on_both
from tests.gpu.test_decode_on_gpu import SEARCHES
from tests.gpu.test_rescored_streams_on_gpu import BOOSTED, needs_kenlm
from tests.gpu.test_streams_on_gpu import needs_kernels, room
from tests.rescore import test_stream_lattices_emulated as rescored
from tests.rescore.test_streams_emulated import chunks

__all__ = ["needs_kenlm", "needs_kernels", "room"]  # fixtures
pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning", "ignore:log_probs. expected:UserWarning")


@pytest.fixture(params=[0, 64, search_plan.STREAM_PRUNE_ABOVE], ids="pruned above {}".format)
def prunings(request, monkeypatch):
    monkeypatch.setattr(search_plan, "STREAM_PRUNE_ABOVE", request.param)
    monkeypatch.setattr(search_plan, "STREAM_LINKS", 1)


@pytest.mark.parametrize("boosted", [False, True])
def test_chunks(room, prunings, boosted):
    boosts = [boost(i) if i % 3 else None for i in range(len(BATCH))] if boosted else None
    on_both(BATCH, np.random.default_rng(1), boosts, asked=SOME, **LATTICES)


@pytest.mark.parametrize("options", SEARCHES)
def test_searches(room, options):
    batch = [random_log_probs(seed, 1 + 37 * seed % 101, 32) for seed in range(20)]
    on_both(
        batch, np.random.default_rng(1), None, random_graph(1), 30, asked=[ASKED | INTERIM],
        **options | {"lattice_beam": 4.0},
    )  # fmt: skip


@pytest.mark.parametrize("shape", [search_plan.WIDE, search_plan.DENSE, search_plan.CLUSTER])
def test_shapes(room, monkeypatch, shape):
    monkeypatch.setattr(search_plan, "launch_shapes", lambda *_: (shape, search_plan.WIDE))
    monkeypatch.setattr(search_plan, "TEAM_TOKENS", 16)
    on_both(BATCH, np.random.default_rng(5), None, GRAPH, asked=[ASKED | INTERIM], **LATTICES)


def test_sentences(room, prunings):
    plain.sentences()


@pytest.mark.parametrize(("place", "boosted"), BOOSTED)
def test_chunks_with_a_model(room, place, boosted):
    chunks(place, boosted, asked=SOME, **rescored.LATTICE_BEAM)


@pytest.mark.parametrize(("place", "boosted"), BOOSTED)
def test_sentences_with_a_model(room, place, boosted):
    rescored.sentences(place, boosted)
