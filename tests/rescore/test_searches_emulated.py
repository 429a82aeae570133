"""Every search with boosts or a large language model on a GPU gives the CPU's bytes, whatever the schedule."""

import math
import tempfile
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import Boost, KenLM
from tests.decode import graphs, kenlm_files
from tests.decode.both_engines import check as check_plain
from tests.decode.emulated_gpu import TIGHT, Shape
from tests.decode.small_search import BATCH, ROOMY
from tests.decode.test_boost import DEPTH_SCALINGS, PHRASES, boost_of, worded
from tests.decode.test_lattice import BEAMS
from tests.decode.test_rescoring import WORDS, language_models, with_words
from tests.hypothesis_examples import examples
from tests.rescore import placed
from tests.rescore.placed import PLACES, REQUESTED
from tests.rescore.searches import SEARCHES, check, known_words, new_words, open_graph
from tests.simt.build import schedules

WITH_CLUSTERS = [(None, "resident"), (None, "bucketed"), ("known", None), ("new", None)]
LITTLE = {"requests": 16, "histories": 20, "wait_cycles": 200}  # of answers
pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")


@pytest.mark.parametrize(("n", "lattice_beam"), [(None, None), (2, 4.0)])
@pytest.mark.parametrize(("words", "place"), SEARCHES)
def test_schedules(words, place, n, lattice_beam):
    for number, schedule in enumerate(schedules(10)):
        of_models = {"arc_cache": (0, 512, 1 << 17)[number % 3], "every": (50, 400)[number % 2], "lm_scale": 0.75}
        seen = check(
            words, place, hypotheses_per_state=n, lattice_beam=lattice_beam, room=ROOMY, schedule=schedule,
            shape=Shape(lanes=1 + number % 2, block=(32, 64)[number % 2]), **of_models if place else {},
        )  # fmt: skip
        assert seen.launches == 1 or schedule["policy"] != "random", "a block that waits lets the others go on"


@pytest.mark.parametrize("lattice_beam", [None, 4.0])
@pytest.mark.parametrize(("words", "place"), SEARCHES)
def test_schedules_with_little_room(words, place, lattice_beam):
    """Frames are given up and redone, everything grows, and lanes stop and are taken up again."""
    for number, schedule in enumerate(schedules(2)):
        of_answers = {"arc_cache": 512, **LITTLE} if place else {}
        seen = check(
            words, place, BATCH, hypotheses_per_state=(2, None)[number % 2], lattice_beam=lattice_beam,
            schedule=schedule, **of_answers,
        )  # fmt: skip
        assert seen.launches > 3


@pytest.mark.parametrize(("words", "place"), SEARCHES)
def test_log_probs_that_come_in_parts(words, place):
    check(words, place, BATCH, lattice_beam=4.0, parts=(256, 1024, 512))


@pytest.mark.parametrize("words", [None, "new"])
@pytest.mark.parametrize("place", REQUESTED)
def test_no_answers_while_kernels_run(words, place):
    """A frame that waits for answers, or for room for questions, is given up and leaves no trace."""
    for schedule in schedules(2):
        seen = check(
            words, place, BATCH[2:4], hypotheses_per_state=2, every=0, arc_cache=512, schedule=schedule, **LITTLE
        )
        assert seen.launches > 5


@pytest.mark.parametrize(
    ("cluster", "lanes", "block", "team_tokens"), [(1, 2, 64, 15), (2, 2, 32, 0), (3, 1, 64, 15), (8, 1, 32, 0)]
)
@pytest.mark.parametrize(("words", "place"), WITH_CLUSTERS)
def test_clusters_give_the_same_bytes(words, place, cluster, lanes, block, team_tokens):
    """Blocks that help with a frame take the list and the model of its utterance."""
    shape = Shape("cluster", lanes, block, cluster, team_tokens)
    for number, schedule in enumerate(schedules(2)):
        check(words, place, BATCH, hypotheses_per_state=2, room=(TIGHT, ROOMY)[number], shape=shape, schedule=schedule)


@pytest.mark.parametrize(("words", "place"), WITH_CLUSTERS)
def test_clusters_under_schedules(words, place):
    for schedule in schedules(20):
        check(words, place, hypotheses_per_state=2, room=ROOMY, shape=Shape("cluster", 2, 32, 2, 20), schedule=schedule)


@pytest.mark.parametrize(("words", "place"), WITH_CLUSTERS[::2])
def test_hot_utterances_go_on_in_a_cluster(words, place):
    batch = [graphs.random_log_probs(seed, frames, 12) for seed, frames in enumerate((20, 3, 30))]
    shape = Shape(lanes=3, block=32, hot_tokens=5, hot_lanes=2)
    launches = {
        check(words, place, batch, hypotheses_per_state=3, room=ROOMY, shape=shape, schedule=one).launches
        for one in schedules(10)
    }
    assert 2 in launches  # whether few are left at work in time is the schedule's doing


@pytest.mark.parametrize("place", ["resident", *REQUESTED])
@pytest.mark.parametrize("bits", [(10, 10), (20, 12), (20, 20), (31, 1), (20, 31)])
def test_bits(place, bits):
    """States take any share of a history's bits, across the border of its two words, too."""
    boosts = known_words(3) if bits[1] > 1 else [Boost({"w1 w2": 1.5}), Boost({"w3": 2.0}), Boost({"w4 w1": -1.0})]
    for n, lattice_beam in ((None, None), (2, 4.0)):
        check("known", place, boost=boosts, bits=bits, hypotheses_per_state=n, lattice_beam=lattice_beam, room=ROOMY)


@pytest.mark.parametrize("place", ["resident", "arcs requested"])
def test_no_epsilon_arc_of_the_graph_has_a_word(place):
    """But some of the request's have: a word that begins another one ends with one."""
    graph = open_graph(4, by_epsilons=False)
    boosts = [Boost({"a": 6.0, "ab": 2.0, "b": 6.0, "bc": 2.0, "c": 6.0, "ca": 2.0}), *new_words(graph, 2)]
    check("new", place, graph=graph, boost=boosts, lattice_beam=4.0, room=ROOMY, arc_cache=512)


@cache
def kenlm_models() -> list[KenLM]:
    kenlm_files.need_kenlm()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(8):
            words = WORDS if seed % 4 else WORDS[:2]
            ngrams = kenlm_files.random_ngrams(words, 2 + seed % 3, seed, few=seed < 4)
            arpa = ngrams.write(Path(folder, f"{seed}.arpa"))
            binary = Path(folder, f"{seed}.binary")
            found.append(KenLM(kenlm_files.write_binary(arpa, binary, kenlm_files.TRIE) if seed % 2 else arpa))
    return found


@pytest.mark.parametrize("boosted", [False, True])
@pytest.mark.parametrize("place", [None, *PLACES])
@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.data(),
    graphs.graphs(blank=3),
    language_models(),
    st.lists(graphs.log_probs(), max_size=4),
    st.sampled_from([0.0, 0.5, 2.0, 17.0, math.inf]),
    st.sampled_from([None, None, 1, 4]),
    st.sampled_from([None, None, *BEAMS]),
    st.sampled_from([TIGHT, ROOMY]),
    st.integers(0, 2**32),
)
def test_random_graphs(place, boosted, data, graph, models, batch, beam, max_active, lattice_beam, room, seed):
    """Dead ends and ties, which the words of histories settle, with caches, answers and scales of any size."""
    one_of = lambda *values: data.draw(st.sampled_from(values))  # noqa: E731
    options = {"beam": beam, "max_active": max_active, "lattice_beam": lattice_beam, "room": room}
    options |= {"shape": Shape(block=32), "schedule": {"seed": seed}, "acoustic_scale": one_of(0.5, 1.0)}
    lm_scale, of_graph = one_of((1.0, 1.0), (0.5, 1.0), (1.0, 0.5), (0.0, 0.0))
    graph = with_words(graph, models[1], lm_scale=of_graph) if place else worded(graph)
    if boosted:
        options["boost"] = boost_of(graph, data.draw(PHRASES), data.draw(DEPTH_SCALINGS))[0]
    if place is None:
        check_plain(graph, batch, **options)
        return
    large = data.draw(st.sampled_from(kenlm_models())) if place == "kenlm" else models[0]
    placed.check(
        graph, (large, models[1]), batch, place=place, lm_scale=lm_scale, hypotheses_per_state=one_of(None, 1, 2, 3, 4),
        arc_cache=one_of(0, 16, 256, 512), every=one_of(0, 7, 60, 1000), polls=one_of(0, 1, 20), unknown_words="unk",
        requests=16, histories=20, wait_cycles=200, **options,
    )  # fmt: skip
