"""Long utterances with a large language model under the emulator: the log is collected all the time."""

from dataclasses import replace

import numpy as np
import pytest

from arcbeam import Graph, SymbolTable
from tests.decode import long_utterances
from tests.decode.emulated_gpu import Shape
from tests.decode.language_models import random_model
from tests.decode.small_search import ROOMY
from tests.rescore.placed import check
from tests.simt.build import schedules

WORDS = ["one", "two", "three"]
OPTIONS = {"beam": 9.0, "max_active": 20, "hypotheses_per_state": 2}
ROOM = replace(ROOMY, log_entries=32, path_entries=1 << 14)
ONE = Shape(lanes=1, block=32)


@pytest.fixture(scope="module")
def models():
    rng = np.random.default_rng(1)
    return random_model(rng, WORDS, 3, share=0.6), random_model(rng, WORDS, 1, share=0.9)


@pytest.fixture(scope="module")
def graph(models):
    fields = {"word_symbols": SymbolTable.from_list(["<eps>", *WORDS]), "meta": {"lm_digest": models[1].digest}}
    return Graph(**long_utterances.graph().fields() | fields)


@pytest.mark.parametrize("meet_every", [0, 6])
def test_schedules(graph, models, meet_every):
    batch = [long_utterances.log_probs(frames, meet_every, frames) for frames in (2, 30)]
    for schedule in schedules():
        assert check(graph, models, batch, room=ROOM, shape=ONE, schedule=schedule, **OPTIONS).seen.launches > 1


@pytest.mark.parametrize(("meet_every", "log"), [(0, 64), (12, 1 << 11)])
def test_many_frames(graph, models, meet_every, log):
    batch = [long_utterances.log_probs(500, meet_every)]
    how = {"shape": ONE, "schedule": {"detect_races": False}}
    seen, _ = check(graph, models, batch, room=replace(ROOM, log_entries=log), **how, **OPTIONS)
    assert check(graph, models, batch, room=replace(ROOM, log_entries=1 << 15), **how, **OPTIONS).seen.launches == 1
    assert seen.stats.tokens > 1 << 11
    assert (seen.launches == 1) == (meet_every > 0), "where histories meet the log does not grow"


def test_clusters_and_lanes_that_ask(graph, models):
    batch = [long_utterances.log_probs(100, 5)]
    shape = Shape("cluster", lanes=1, block=32, cluster=2, team_tokens=3)
    check(graph, models, batch, room=ROOM, shape=shape, **OPTIONS)
    check(graph, models, batch, room=ROOM, shape=ONE, place="arcs requested", **OPTIONS)
