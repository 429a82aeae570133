"""What a stage has to do at least, counted again arc by arc; and its share of the ceilings of a block."""

import numpy as np
import pytest

from arcbeam import _stages
from benchmarks.engine import stage_ceilings
from benchmarks.engine.rescoring_stage_kernel import Lookup
from benchmarks.engine.stage_ceilings import Ceiling, least
from benchmarks.engine.stage_kernel import NONE, Layout, Twin
from tests.decode.random_graphs import random_graph, random_log_probs

LAYOUT = Layout(shared=128, spilled=512, threads=64)
NANOSECONDS = {"reads": 2.0, "minima in L2": 4.0, "reads in a row": 100.0, "barriers": 25.0}


@pytest.fixture(scope="module", params=[3, 4, 7])
def case(request):
    twin = Twin(random_graph(request.param, states=120, columns=12), beam=6.0, max_active=30)
    for row in random_log_probs(request.param, 4, 12):
        frame = twin.frame(row)
        made = twin.make(frame)
    return frame, made


def arcs_of(graph, state, epsilon):
    first, emitting = int(graph.states["first_arc"][state]), int(graph.states["first_emitting"][state])
    return range(first, emitting) if epsilon else range(emitting, int(graph.states["first_arc"][state + 1]))


def test_labels_and_arcs_of_expand(case):
    frame, made = case
    acoustic = _stages.AcousticCosts(frame.log_probs, blank=frame.blank).costs()
    chunks = 0
    for token, leaves in zip(frame.tokens, frame.cutoff()[1], strict=True):
        arcs = arcs_of(frame.graph, token["state"], False)
        smallest = frame.graph.states["smallest_weight"][token["state"]]
        if leaves and (token["cost"] + acoustic.min()) + smallest <= made.bound:
            chunks += len({arc // 8 for arc in arcs})
    assert least(*case, LAYOUT)["expand"]["reads"] == chunks + len(made.candidates)


def test_offers_of_the_closure(case):
    frame, made = case
    weights = frame.graph.targets["weight"]
    offers = sum(
        bool(one["cost"] + weights[arc] <= made.bound)
        for one in made.frontier
        for arc in arcs_of(frame.graph, one["state"], True)
    )
    found = least(*case, LAYOUT)
    assert found["closure"]["minima in shared memory"] == offers
    assert found["closure"]["reads"] == len(made.frontier) - len(made.winners)
    leaving = {one["state"] for one in made.frontier if arcs_of(frame.graph, one["state"], True)}
    assert found["closure"]["barriers"] == max(1, len({int(frame.graph.states["depth"][s]) for s in leaving}))


def test_epsilon_arcs_behind_each_other(case):
    frame, made = case
    first, source = len(frame.entries), made.entries["source"].astype(np.int64)

    def way(i):
        return 0 if source[i] < first or source[i] == NONE else 1 + way(source[i] - first)

    assert stage_ceilings.longest_way(frame, made) == max(way(i) for i in range(len(source)))
    twice = stage_ceilings.longest_way(frame, made, [2] * len(source))
    assert twice == 2 * stage_ceilings.longest_way(frame, made)


def test_a_cutoff_that_has_nothing_to_cut(case):
    frame, made = case
    found = least(frame, made, LAYOUT)["cutoff"]
    many = len(frame.tokens) > frame.max_active
    assert found == ({"minima in shared memory": len(frame.tokens), "barriers": 8} if many else {"barriers": 1})


def test_a_log_that_l1_keeps(case, monkeypatch):
    frame, made = case
    assert least(frame, made, LAYOUT)["backtrack"]["of L1 in a row"] == len(made.path)
    monkeypatch.setattr(stage_ceilings, "L1_LOG_BYTES", 8 * len(frame.entries) - 1)
    found = least(frame, made, LAYOUT)["backtrack"]
    assert (found["reads in a row"], found.get("of L1 in a row")) == (1 + len(made.path), None)


@pytest.mark.parametrize(
    ("room", "minima"),
    [("shared", "minima in shared memory"), ("mixed", "minima in shared memory"), ("spilled", "minima in L2")],
)
def test_minima_are_where_the_table_is(case, room, minima):
    frame, made = case
    found = least(frame, made, Layout(shared=128, spilled=512, room=room))
    assert found["recombine"][minima] == len(made.candidates)
    assert (found["prune"]["bytes"] > 8 * len(made.survivors)) == (room != "shared")


def test_where_the_large_model_is(case):
    counts = {"distinct": 5, "misses": 3, "reads": 40}

    class Looked:
        rescored = [None] * 7

    def lookup(*where, **more):
        return stage_ceilings._lookup(Looked, Lookup(*where), counts | more)

    assert lookup() == {"reads": 7 + 10 + 40, "reads in a row": 5, "barriers": 2}
    near = lookup("host-direct", 16)
    assert (near["reads"], near["reads over the bus"], near["over the bus in a row"]) == (27, 40, 1)
    assert lookup("host-direct, in buckets", 16)["over the bus in a row"] == 2
    assert lookup("host-direct", 16, misses=0) == {"reads": 27, "reads in a row": 3, "barriers": 2}


def test_the_slowest_bounds_and_waits_add_up():
    ceiling = Ceiling(NANOSECONDS)
    row = ceiling.share({"reads": 1000, "minima in L2": 10, "reads in a row": 3, "barriers": 2}, 4e-6)
    assert row == {"bound": "1,000 reads", "ceiling_us": 2.0, "share": pytest.approx(0.5)}
    row = ceiling.share({"reads": 10, "minima in L2": 0, "reads in a row": 3, "barriers": 2}, 7e-7)
    assert row == {"bound": "3 reads in a row, 2 barriers", "ceiling_us": 0.35, "share": pytest.approx(0.5)}
    assert [row["work"] for row in ceiling.rows()] == list(NANOSECONDS)
