"""The search kernel with new words gives the twin's bytes, whatever the schedule."""

import numpy as np
import pytest

from arcbeam import Boost, CtcDecoder, Endpoint, EndpointRule, Graph, SymbolTable, TokenTable
from arcbeam.ctc.streams.endpoint import EndpointRules
from arcbeam.graph.graph import OpenSlot
from tests.decode import graphs
from tests.decode.host_streams import HostStream
from tests.decode.search_host import Room, Shape
from tests.decode.test_new_words import arcs_of, said, small_graph
from tests.rescore.boost_host import NewWordsHost, check_new_words
from tests.rescore.test_boost_emulated import GENEROUS, WORDS
from tests.simt.build import schedules

LETTERS = [*"abcdefghijk", "<blank>"]
SMALL = [graphs.random_log_probs(seed, frames, 4, sharpness=2.0) for seed, frames in enumerate((8, 0, 11))]
BATCH = [graphs.random_log_probs(seed, frames, 12) for seed, frames in enumerate((5, 0, 9, 1, 7))]
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
        check_new_words(
            small_graph(number, more=number), boosts, SMALL, beam=12.0, lattice_beam=lattice_beam, room=GENEROUS,
            shape=Shape(lanes=1 + number % 2, block=(32, 64)[number % 2]), schedule=schedule,
        )  # fmt: skip


@pytest.mark.parametrize("lattice_beam", [None, 4.0])
def test_whole_blocks(lattice_beam):
    """As many threads as on a GPU."""
    for schedule in schedules(1):
        check_new_words(GRAPH, random_boosts(GRAPH, 3), BATCH[:3], beam=6.0, max_active=40, lattice_beam=lattice_beam,
                        room=GENEROUS, shape=Shape(lanes=1, block=512), schedule=schedule)  # fmt: skip


@pytest.mark.parametrize("lattice_beam", [None, 4.0])
def test_schedules_with_little_room(lattice_beam):
    """Frames are given up and redone, and everything grows."""
    for schedule in schedules(8):
        host = check_new_words(
            GRAPH, random_boosts(GRAPH, len(BATCH)), BATCH, beam=6.0, max_active=40, lattice_beam=lattice_beam,
            schedule=schedule,
        )  # fmt: skip
        assert host.launches > 3


@pytest.mark.parametrize("seed", range(6))
def test_random_slots(seed):
    """The words of the request are reached, from states with epsilon arcs of their own and without."""
    meta = {} if seed % 2 else {"topology": "normal"}
    graph = open_graph(seed, entrances=(1, 40, 200)[seed % 3], **meta)
    boosts = random_boosts(graph, len(BATCH))
    check_new_words(graph, boosts, BATCH, beam=8.0, lattice_beam=6.0, room=GENEROUS)


@pytest.mark.parametrize(("cluster", "lanes", "team_tokens"), [(2, 2, 0), (3, 1, 15)])
def test_clusters_give_the_same_bytes(cluster, lanes, team_tokens):
    """The blocks that help with a frame read the request of its utterance."""
    shape = Shape("cluster", lanes, 32, cluster, team_tokens)
    for room, schedule in zip((Room(), GENEROUS), schedules(2), strict=False):
        check_new_words(
            GRAPH, random_boosts(GRAPH, len(BATCH)), BATCH, beam=8.0, max_active=40, lattice_beam=None, room=room,
            shape=shape, schedule=schedule,
        )  # fmt: skip


SOON = Endpoint({
    "pause": EndpointRule(min_trailing_silence=0.3),
    "long": EndpointRule(min_trailing_silence=0.0, min_utterance_length=1.2),
})  # fmt: skip
SPOKEN = [np.concatenate([graphs.random_log_probs(20 + i, 9, 4, sharpness=3.0), said("-----")]) for i in range(4)]


def by_the_kernel(graph, lists, cut, endpoint=None, **schedule):
    """Chunks that the kernel alone decodes, its host being of the simplest kind, against the CPU's partial results."""
    limits = {"beam": 12.0, "max_active": 60}
    cpu = CtcDecoder(graph, device="cpu", frame_shift=0.1, **limits)
    compiled = [(one or Boost({})).compiled(graph) for one in lists]
    host = NewWordsHost(graph, compiled, room=Room(capacity=32, spill_capacity=32), **limits)
    rules = None if endpoint is None else EndpointRules.of(endpoint, graph, 0.1)
    states = [HostStream(rules=rules) for _ in lists]
    streams = [cpu.stream(boost=one, endpoint=endpoint) for one in lists]
    for first in range(0, len(SPOKEN[0]), cut):
        last = first + cut >= len(SPOKEN[0])
        chunks = [np.ascontiguousarray(logp[first : first + cut]) for logp in SPOKEN]
        found = host.decode(chunks, Shape(lanes=2, block=64), streams=states, last=last, **schedule)
        wanted = cpu.decode_chunks(streams, chunks, last=last)
        for state, got, want in zip(states, found, wanted, strict=True):
            assert state.settled == want.arcs[: len(want._settled)].tolist()
            assert state.settled + got.arcs.tolist() == want.arcs.tolist()
            assert np.float64(got.total_cost).tobytes() == np.float64(0.0 - want.partial_score).tobytes()
        assert [state.frames for state in states] == [stream.num_frames for stream in streams]
        assert [state.fired for state in states] == [stream._state.fired for stream in streams]
    return streams


@pytest.mark.parametrize("endpoint", [None, SOON])
def test_streams(endpoint):
    """One has no list, and one a list without new words."""
    lists, found, fired = [Boost({"zz": 6.0, "xy": 6.0}), None, Boost(["a"]), Boost({"x": 6.0, "yx": 7.0})], 0, set()
    for number, schedule in enumerate(schedules(3)):
        streams = by_the_kernel(small_graph(number), lists, (2, 5, 14)[number % 3], endpoint, **schedule)
        found += sum(int((stream.partial.arcs >= small_graph(number).num_arcs).any()) for stream in streams)
        fired |= {stream._state.fired for stream in streams}
    assert found > 5 and (endpoint is None or fired >= {1, 2})


def test_slots_are_reached():
    found = CtcDecoder(GRAPH, device="cpu", beam=8.0).decode(BATCH, boost=random_boosts(GRAPH, len(BATCH)))
    assert sum((one.arcs >= GRAPH.num_arcs).sum() for one in found) > 5
