"""The search kernel with a large language model in buckets gives the twin's bytes, whatever the schedule."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import Graph, SymbolTable
from arcbeam.gpu.tuned import search_plan
from arcbeam.lm._lm_buckets import FULLNESS
from tests.decode import graphs
from tests.decode.language_models import random_model
from tests.decode.search_host import Room, Shape, as_launched
from tests.decode.test_rescoring import language_models, with_words
from tests.hypothesis_examples import examples
from tests.rescore.rescore_host import check
from tests.simt.build import schedules

WORDS = [f"w{i}" for i in range(1, 50)]
ROOM = Room(capacity=512, candidates=2048, table_size=1024, spill_capacity=512, log=4096, paths=4096)
OPTIONS = {"beam": 6.0, "max_active": 40, "in_buckets": FULLNESS}


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    graphs.graphs(blank=3),
    language_models(),
    st.lists(graphs.log_probs(), min_size=1, max_size=3),
    st.sampled_from([0.5, 2.0, float("inf")]),
    st.sampled_from([None, 1, 3]),
    st.sampled_from([0, 16, 4096]),
    st.sampled_from([Room(), ROOM]),
    st.sampled_from([0.3, FULLNESS]),
    st.integers(0, 2**32),
)
def test_random_graphs(graph, models, batch, beam, n, cache, room, fullness, seed):
    check(
        with_words(graph, models[1]), models, batch, beam=beam, hypotheses_per_state=n, cache=cache, room=room,
        shape=Shape(block=32), schedule={"seed": seed}, in_buckets=fullness, unknown_words="unk",
    )  # fmt: skip


def over(models, seed=4, **fields):
    fields = {"word_symbols": SymbolTable.from_list(["<eps>", *WORDS]), "meta": {"lm_digest": models[1].digest}}
    return Graph(**graphs.random_graph(seed, states=120, columns=12).fields() | fields)


@pytest.fixture(scope="module")
def models():
    rng = np.random.default_rng(4)
    cost = lambda r: float(r.gamma(4.0))  # noqa: E731
    return random_model(rng, WORDS, 3, share=0.2, cost=cost), random_model(rng, WORDS, 2, share=0.3, cost=cost)


@pytest.fixture(scope="module")
def batch():
    return [graphs.random_log_probs(seed, frames, 12) for seed, frames in enumerate((5, 0, 9, 1, 7))]


def test_schedules(models, batch):
    graph = over(models)
    for number, schedule in enumerate(schedules()):
        cache = (0, 16, 4096)[number % 3]
        check(graph, models, batch[:3], hypotheses_per_state=3, cache=cache, room=ROOM, schedule=schedule, **OPTIONS)


def test_little_room(models, batch):
    for schedule in schedules(10):
        check(over(models), models, batch[:2], hypotheses_per_state=2, cache=16, schedule=schedule, **OPTIONS)


@pytest.mark.parametrize("launch", ["WIDE", "DENSE", "RESCORING_CLUSTER"])
def test_launches_of_the_engine(models, batch, launch):
    shape = as_launched(getattr(search_plan, launch), team_tokens=15)
    for schedule in schedules(2):
        check(
            over(models), models, batch[:1], hypotheses_per_state=3, cache=16, room=ROOM, shape=shape,
            schedule=schedule, **OPTIONS,
        )  # fmt: skip


@pytest.mark.parametrize(("cluster", "lanes", "block"), [(2, 2, 32), (3, 1, 64), (8, 1, 32)])
def test_clusters(models, batch, cluster, lanes, block):
    shape = Shape("cluster", lanes, block, cluster, 15)
    for schedule in schedules(5):
        check(
            over(models), models, batch, hypotheses_per_state=2, cache=16, room=ROOM, shape=shape, schedule=schedule,
            **OPTIONS,
        )  # fmt: skip


@pytest.mark.parametrize("kernel", ["wide", "dense"])
@pytest.mark.parametrize("block", [32, 128])
def test_blocks(models, batch, kernel, block):
    check(over(models), models, batch, hypotheses_per_state=3, shape=Shape(kernel, 1, block), room=ROOM, **OPTIONS)


@pytest.mark.parametrize("order", [1, 2, 4, 5, 6, 9, 11, 14, 16])
def test_orders(order):
    """Histories of any length; those of 14-grams and longer take more waits."""
    rng = np.random.default_rng(order)
    large = random_model(rng, WORDS[:2], order, share=0.9 if order > 4 else 0.6)
    small = random_model(rng, WORDS[:2], 2)
    source, target, labels = rng.integers(0, 6, 30), rng.integers(0, 6, 30), rng.integers(1, 4, 30)
    fields = {"word_symbols": SymbolTable.from_list(["<eps>", *WORDS[:2]]), "meta": {"lm_digest": small.digest}}
    plain = Graph.from_arcs(
        (source, target, labels, rng.integers(1, 3, 30), rng.random(30).astype(np.float32)), num_states=6,
        num_columns=3, finals={0: 0.0, 3: 0.5},
    )  # fmt: skip
    check(
        Graph(**plain.fields() | fields), (large, small), [graphs.random_log_probs(0, 18, 3)], beam=8.0,
        hypotheses_per_state=4, room=ROOM, in_buckets=FULLNESS,
    )  # fmt: skip


@pytest.mark.parametrize("unknown_words", ["unk", "small"])
def test_unknown_words(unknown_words, batch):
    rng = np.random.default_rng(7)
    large, small = random_model(rng, WORDS[:30], 3, share=0.2), random_model(rng, WORDS, 2, share=0.3)
    for cache in (0, 16):
        check(
            over((large, small)), (large, small), batch, hypotheses_per_state=3, cache=cache,
            room=replace(ROOM, log=8192), unknown_words=unknown_words, **OPTIONS,
        )  # fmt: skip


def test_the_limit_of_reads(models, batch):
    """Of every look-up that the cache lacks: a chain, two buckets of each of its states, and a word."""
    large = models[0]
    host = check(over(models), models, batch, room=ROOM, shape=Shape(lanes=1, block=32), **OPTIONS)
    states, sectors_a_bucket = large.order - 1, 2
    assert host.counters[2] < host.counters[3] <= host.counters[2] * (1 + 2 * sectors_a_bucket * states + 1)
