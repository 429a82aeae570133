"""The search with new words on a GPU gives the CPU's bytes, whatever the schedule."""

import numpy as np
import pytest

from arcbeam import Boost, CtcDecoder, Endpoint, EndpointRule, Graph, SymbolTable, TokenTable
from arcbeam.graph.graph import OpenSlot
from tests.decode import graphs
from tests.decode.both_engines import check
from tests.decode.emulated_gpu import TIGHT, Shape, scheduled
from tests.decode.language_models import WORDS
from tests.decode.small_search import BATCH, ROOMY
from tests.decode.test_new_words import arcs_of, said, small_graph
from tests.decode.test_streams_emulated import LITTLE, SMALL_STATES, seen
from tests.simt.build import schedules

LETTERS = [*"abcdefghijk", "<blank>"]
SMALL = [graphs.random_log_probs(seed, frames, 4, sharpness=2.0) for seed, frames in enumerate((8, 0, 11))]
pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")


def open_graph(seed, entrances=40, by_epsilons=True, **meta):
    """A random graph, many of whose states enter the slot, some of them several times.

    by_epsilons : whether its epsilon arcs write words
    """
    graph = graphs.random_graph(seed, states=120, columns=12)
    source, target, label, word, weight = arcs_of(graph)
    rng = np.random.default_rng(seed)
    slot = OpenSlot(
        np.sort(rng.integers(0, 120, entrances)).astype("<u4"),
        rng.gamma(1.0, size=entrances).astype("<f4"),
        rng.integers(0, 120, entrances).astype("<u4"),
    )
    return Graph.from_arcs(
        (source, target, label, np.where((label == 0) & (not by_epsilons), 0, word), weight), start=graph.start,
        finals=graph.finals, num_states=120, tokens=TokenTable.from_list(LETTERS),
        word_symbols=SymbolTable.from_list(["<eps>", *WORDS]), meta=meta, open_slot=slot,
    )  # fmt: skip


GRAPH = open_graph(4)


def random_boosts(graph, count, phrases=12):
    """Of phrases with new words of up to four letters."""
    made, known = [], [WORDS[word - 1] for word in np.unique(graph.words) if word]
    for seed in range(count):
        rng = np.random.default_rng(seed)
        new = ["".join(rng.choice(LETTERS[:-1], rng.integers(1, 5))) for _ in range(8)]
        phrased = {" ".join(rng.choice([*known[:8], *new], rng.integers(1, 4))) for _ in range(phrases)} | set(new[:4])
        made.append(Boost({phrase: float(rng.normal(4.0, 2.0)) for phrase in sorted(phrased)}))
    return made


@pytest.mark.parametrize("lattice_beam", [None, 4.0])
def test_schedules(lattice_beam):
    # The first word of a list that begins another one is written by an epsilon arc.
    boosts = [Boost({"x": 6.0, "xy": 6.0}), Boost(["a"]), Boost({"zz": 6.0, "a xx": 4.0})]
    for number, schedule in enumerate(schedules(15)):
        check(
            small_graph(number, more=number), SMALL, boost=boosts, beam=12.0, lattice_beam=lattice_beam, room=ROOMY,
            shape=Shape(lanes=1 + number % 2, block=(32, 64)[number % 2]), schedule=schedule,
        )  # fmt: skip


@pytest.mark.parametrize("lattice_beam", [None, 4.0])
def test_whole_blocks(lattice_beam):
    """As many threads as on a GPU."""
    for schedule in schedules(1):
        check(GRAPH, BATCH[:3], boost=random_boosts(GRAPH, 3), beam=6.0, max_active=40, lattice_beam=lattice_beam,
              room=ROOMY, shape=Shape(lanes=1, block=512), schedule=schedule)  # fmt: skip


@pytest.mark.parametrize("lattice_beam", [None, 4.0])
def test_schedules_with_little_room(lattice_beam):
    """Frames are given up and redone, and everything grows."""
    for schedule in schedules(8):
        found = check(
            GRAPH, BATCH, boost=random_boosts(GRAPH, len(BATCH)), beam=6.0, max_active=40, lattice_beam=lattice_beam,
            schedule=schedule,
        )  # fmt: skip
        assert found.launches > 3


@pytest.mark.parametrize("seed", range(6))
def test_random_slots(seed):
    """The words of the request are reached, from states with epsilon arcs of their own and without."""
    meta = {} if seed % 2 else {"topology": "normal"}
    graph = open_graph(seed, entrances=(1, 40, 200)[seed % 3], **meta)
    boosts = random_boosts(graph, len(BATCH))
    check(graph, BATCH, boost=boosts, beam=8.0, lattice_beam=6.0, room=ROOMY)


@pytest.mark.parametrize(("cluster", "lanes", "team_tokens"), [(2, 2, 0), (3, 1, 15)])
def test_clusters_give_the_same_bytes(cluster, lanes, team_tokens):
    """The blocks that help with a frame read the request of its utterance."""
    shape = Shape("cluster", lanes, 32, cluster, team_tokens)
    for room, schedule in zip((TIGHT, ROOMY), schedules(2), strict=False):
        check(
            GRAPH, BATCH, boost=random_boosts(GRAPH, len(BATCH)), beam=8.0, max_active=40, room=room,
            shape=shape, schedule=schedule,
        )  # fmt: skip


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
    found = CtcDecoder(GRAPH, device="cpu", beam=8.0).decode(BATCH, boost=random_boosts(GRAPH, len(BATCH)))
    assert sum((one.arcs >= GRAPH.num_arcs).sum() for one in found) > 5
