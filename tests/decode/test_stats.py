"""What a decode counts comes with its results, whoever else uses the decoder."""

import copy
import pickle
import threading
from functools import partial

import pytest

from arcbeam import CtcDecoder, Hypotheses
from tests.decode import graphs
from tests.decode.equality import same
from tests.processes import in_threads

GRAPH = graphs.random_graph(4, states=60, columns=12)
BATCHES = [[graphs.random_log_probs(seed, frames, 12) for seed in range(3)] for frames in (5, 9, 14, 30)]


def frames_of(batch):
    return sum(map(len, batch))


@pytest.fixture
def decoder():
    return CtcDecoder(GRAPH, beam=4.0, max_active=20, device="cpu", threads=2)


def test_results_are_a_list_that_knows_its_statistics(decoder):
    found = decoder.decode(BATCHES[0])
    assert isinstance(found, list) and type(found) is Hypotheses
    assert found == list(found) and len(found) == 3
    assert found.stats == decoder.stats
    assert found.stats.frames == frames_of(BATCHES[0]) and found.stats.admitted > 0
    later = decoder.decode(BATCHES[1])
    assert (found.stats.frames, later.stats.frames) == (frames_of(BATCHES[0]), frames_of(BATCHES[1]))
    assert decoder.stats is later.stats


@pytest.mark.parametrize("again", [lambda h: pickle.loads(pickle.dumps(h)), copy.copy, copy.deepcopy])
def test_they_travel_together(decoder, again):
    found = decoder.decode(BATCHES[0])
    travelled = again(found)
    assert (type(travelled), travelled.stats) == (Hypotheses, found.stats)
    same(travelled, found)


def test_threads_do_not_overwrite_each_others(decoder):
    meet = threading.Barrier(len(BATCHES), timeout=60)
    wrong = []

    def work(batch):
        for _ in range(20):
            found = decoder.decode(batch)
            meet.wait()  # all have decoded since
            if not found.stats.frames == decoder.stats.frames == frames_of(batch):
                wrong.append(frames_of(batch))

    in_threads(*(partial(work, batch) for batch in BATCHES))
    assert wrong == []
    assert decoder.stats.frames == 0, "this thread has decoded nothing"


NAMES = ("arcs", "score", "partial_score", "complete", "reached_final", "error")


@pytest.mark.parametrize("first", NAMES)
def test_any_value_of_a_path_may_be_read_first(decoder, first):
    wanted = [{name: getattr(one, name) for name in NAMES} for one in decoder.decode(BATCHES[0])]
    for one, values in zip(decoder.decode(BATCHES[0]), wanted, strict=True):
        getattr(one, first)
        assert one.arcs.tolist() == values["arcs"].tolist() and one.arcs.dtype == "uint32"
        assert all(getattr(one, name) == values[name] for name in NAMES[1:])
        assert (type(one.score), type(one.partial_score)) == (float, float)
        assert (type(one.complete), type(one.reached_final)) == (bool, bool)


def test_a_value_that_is_set_stays(decoder):
    one, other = decoder.decode(BATCHES[0])[:2]
    one.score = 5.0
    assert len(one.arcs) and one.partial_score != 5.0 and one.score == 5.0
    assert pickle.loads(pickle.dumps(one)).score == 5.0
    assert other.score != 5.0
