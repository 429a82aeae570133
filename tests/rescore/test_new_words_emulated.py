"""The search with new words on a GPU gives the CPU's bytes, whatever the schedule."""

import numpy as np
import pytest

from arcbeam import Boost, CtcDecoder, Endpoint, EndpointRule
from tests.decode import graphs
from tests.decode.both_engines import check
from tests.decode.emulated_gpu import Shape, scheduled
from tests.decode.small_search import BATCH, ROOMY
from tests.decode.test_new_words import said, small_graph
from tests.decode.test_streams_emulated import LITTLE, SMALL_STATES, seen
from tests.rescore.searches import OPEN, new_words, open_graph
from tests.simt.build import schedules

SMALL = [graphs.random_log_probs(seed, frames, 4, sharpness=2.0) for seed, frames in enumerate((8, 0, 11))]
pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")


@pytest.mark.parametrize("lattice_beam", [None, 4.0])
def test_schedules(lattice_beam):
    # The first word of a list that begins another one is written by an epsilon arc.
    boosts = [Boost({"x": 6.0, "xy": 6.0}), Boost(["a"]), Boost({"zz": 6.0, "a xx": 4.0})]
    for number, schedule in enumerate(schedules(15)):
        check(
            small_graph(number, more=number), SMALL, boost=boosts, beam=12.0, lattice_beam=lattice_beam, room=ROOMY,
            shape=Shape(lanes=1 + number % 2, block=(32, 64)[number % 2]), schedule=schedule,
        )  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_random_slots(seed):
    """The words of the request are reached, from states with epsilon arcs of their own and without."""
    meta = {} if seed % 2 else {"topology": "normal"}
    graph = open_graph(seed, entrances=(1, 40, 200)[seed % 3], **meta)
    boosts = new_words(graph, len(BATCH))
    check(graph, BATCH, boost=boosts, beam=8.0, lattice_beam=6.0, room=ROOMY)


SOON = Endpoint({
    "pause": EndpointRule(min_trailing_silence=0.3),
    "long": EndpointRule(min_trailing_silence=0.0, min_utterance_length=1.2),
})  # fmt: skip
SPOKEN = [np.concatenate([graphs.random_log_probs(20 + i, 9, 4, sharpness=3.0), said("-----")]) for i in range(4)]


def in_chunks(graph, lists, cut, endpoint=None, schedule=None):
    """Chunks of streams under a schedule: the CPU's results.

    Gives, of each stream, how many arcs of its list are in its path, and the rule that ended it.
    """

    @scheduled(schedule, room=LITTLE, shape=Shape(lanes=2, block=64), **SMALL_STATES)
    def ends():
        decoders = [CtcDecoder(graph, device=on, frame_shift=0.1, beam=12.0, max_active=60) for on in ("cuda", "cpu")]
        streams = [[one.stream(boost=boost, endpoint=endpoint) for boost in lists] for one in decoders]
        for first in range(0, len(SPOKEN[0]), cut):
            chunks, last = [logp[first : first + cut] for logp in SPOKEN], first + cut >= len(SPOKEN[0])
            found, wanted = (
                one.decode_chunks(own, chunks, last=last) for one, own in zip(decoders, streams, strict=True)
            )
            assert list(map(seen, found)) == list(map(seen, wanted))
            assert [one.endpoint for one in found] == [one.endpoint for one in wanted]
        return [(int((one.arcs >= graph.num_arcs).sum()), one.endpoint) for one in found]

    return ends()


@pytest.mark.parametrize("endpoint", [None, SOON])
def test_streams(endpoint):
    """One has no list, and one a list without new words."""
    lists, ends = [Boost({"zz": 6.0, "xy": 6.0}), None, Boost(["a"]), Boost({"x": 6.0, "yx": 7.0})], []
    for number, schedule in enumerate(schedules(3)):
        ends += in_chunks(small_graph(number), lists, (2, 5, 14)[number % 3], endpoint, schedule)
    assert sum(arcs > 0 for arcs, _ in ends) > 5
    assert endpoint is None or {"pause", "long"} <= {rule for _, rule in ends}


def test_slots_are_reached():
    found = CtcDecoder(OPEN, device="cpu", beam=8.0).decode(BATCH, boost=new_words(OPEN, len(BATCH)))
    assert sum((one.arcs >= OPEN.num_arcs).sum() for one in found) > 5
