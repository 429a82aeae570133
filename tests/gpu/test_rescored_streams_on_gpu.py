"""Streams with a large language model on a real GPU: the CPU engine's bytes, wherever the model lives."""

import numpy as np
import pytest

from arcbeam.gpu.tuned import search_plan
from tests.decode import kenlm_files
from tests.decode.language_models import over, rough_models
from tests.decode.random_graphs import random_graph, random_log_probs
from tests.decode.test_streams_emulated import on_both
from tests.gpu.test_decode_on_gpu import SEARCHES
from tests.rescore import test_stream_lattices_emulated as lattices
from tests.rescore import test_streams_emulated as emulated

pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning", "ignore:log_probs. expected:UserWarning")
STORIES = emulated.STORIES | {"lattices": lattices.in_company, "sentences with lattices": lattices.sentences}
SHAPES = [search_plan.WIDE, search_plan.DENSE, search_plan.RESCORING_CLUSTER]
BOOSTED = [(place, boosted) for place in emulated.PLACES for boosted in (False, True)]


@pytest.fixture(autouse=True)
def needs_kenlm(request):
    if "kenlm" in request.node.callspec.params.values():
        kenlm_files.need_kenlm()


@pytest.mark.parametrize(("place", "boosted"), BOOSTED)
@pytest.mark.parametrize("seed", range(3))
def test_chunks(room, place, boosted, seed):
    emulated.chunks(place, boosted, seed)


@pytest.mark.parametrize(("place", "boosted"), BOOSTED)
@pytest.mark.parametrize("story", STORIES)
def test_stories(room, story, place, boosted):
    STORIES[story](place, boosted)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("place", ["resident", "bucketed"])
def test_shapes_and_states_that_grow(room, monkeypatch, place, shape):
    monkeypatch.setattr(search_plan, "STREAM_TOKENS", 1)
    monkeypatch.setattr(search_plan, "STREAM_ENTRIES", 1)
    monkeypatch.setattr(search_plan, "launch_shapes", lambda *_: (shape, search_plan.WIDE))
    monkeypatch.setattr(search_plan, "RESCORING_TEAM_TOKENS", 16)
    emulated.chunks(place, False, 5)


@pytest.mark.parametrize("options", SEARCHES)
@pytest.mark.parametrize("place", [name for name in emulated.PLACES if name != "kenlm"])
def test_searches(room, place, options):
    """On a larger graph, and with many streams."""
    large, small = rough_models(4)
    batch = [random_log_probs(seed, 1 + 37 * seed % 101, 32) for seed in range(40)]
    given = {"language_model": large, "graph_language_model": small, "hypotheses_per_state": 3} | options
    graph = over(random_graph(1), small)
    on_both(batch, np.random.default_rng(1), None, graph, 30, emulated.PLACES[place], **given)


@pytest.mark.parametrize("bytes_for_all", [0, 1 << 20])
@pytest.mark.parametrize("place", ["kenlm"])
def test_numbers_of_kenlm_begin_anew(room, monkeypatch, place, bytes_for_all):
    monkeypatch.setattr(search_plan, "REQUEST_HISTORIES", 64)
    monkeypatch.setattr(search_plan, "REQUEST_HISTORIES_BYTES", bytes_for_all)
    for seed in range(3):
        emulated.chunks(place, False, seed)
    emulated.sentences(place, False)
