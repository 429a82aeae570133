"""Lanes that request arcs from the host, or all scores of the large model: the CPU's bytes, whenever answers come."""

import numpy as np
import pytest

from arcbeam import Graph, KenLM
from tests.decode import graphs, kenlm_files
from tests.decode.emulated_gpu import Shape
from tests.decode.language_models import WORDS, language_model, over, random_model
from tests.decode.small_search import BATCH, ROOMY
from tests.decode.test_kenlm import tied_arpa
from tests.rescore.placed import check, kenlm
from tests.simt.build import schedules

OPTIONS = {"beam": 6.0, "max_active": 40}
ONE = Shape(lanes=1, block=32)


@pytest.fixture(scope="module")
def small():
    return random_model(np.random.default_rng(4), WORDS, 2, share=0.3, cost=lambda r: float(r.gamma(4.0)))


@pytest.fixture(scope="module", params=["arcs requested", "kenlm"])
def requested(request, small):
    """The large model, and what lanes request from the host."""
    if request.param == "arcs requested":
        large = random_model(np.random.default_rng(5), WORDS, 3, share=0.2, cost=lambda r: float(r.gamma(4.0)))
        return {"models": (large, small), "place": "arcs requested"}
    return {"models": (kenlm(), small), "place": "kenlm", "unknown_words": "unk"}


@pytest.fixture(scope="module")
def graph(small):
    return over(graphs.random_graph(4, states=120, columns=12), small)


def tied_by_words(folder, seed):
    """(graph, models): all costs are equal, and histories are met in another order than their words'."""
    names = ["e", "d", "a", "b", "c"]
    arpa = tied_arpa(folder / "tied.arpa", names, ["a", "b", "d", "e"])
    rng = np.random.default_rng(seed)
    small = random_model(rng, names, 1, cost=lambda r: 0.5)
    source, target, labels = rng.integers(0, 12, 48), rng.integers(0, 12, 48), rng.integers(1, 4, 48)
    plain = Graph.from_arcs(
        (source, target, labels, rng.integers(0, 6, 48), np.zeros(48, np.float32)), num_states=12, num_columns=3,
        finals=dict.fromkeys(range(12), 0.0),
    )  # fmt: skip
    return over(plain, small, names), (KenLM(arpa), small)


def test_both_halves_have_answer_batches(graph, requested):
    """Answers of several lanes travel together, each half's by a way of its own, and some are under way for long."""
    if requested["place"] == "kenlm":
        pytest.skip("KenLM's answers do not travel")
    for number, schedule in enumerate(schedules(20)):
        seen, answering = check(
            graph, batch=BATCH * 2, hypotheses_per_state=2, arc_cache=(0, 256, 1 << 16)[number % 3], room=ROOMY,
            shape=Shape(lanes=1 + number % 5, block=32), schedule=schedule, every=(20, 150)[number % 2],
            polls=(0, 1, 4, 40)[number % 4], **requested, **OPTIONS,
        )  # fmt: skip
        even, odd = answering.sent
        assert even + odd > 0 and (odd == 0 or number % 5 > 0)
        if number % 3 == 0:  # a cache may know all that a half needs
            assert even > 0 and (odd > 0) == (number % 5 > 0)
        assert even + odd <= answering.rounds or seen.launches > 1, "a launch sends again what came too late"


def test_without_the_cache_every_question_is_sent_once(graph, requested):
    """A table that holds all answers of a batch requests nothing twice."""
    requested_each = [
        check(
            graph, batch=BATCH, room=ROOMY, shape=ONE, requests=requests, arc_cache=cache, **requested, **OPTIONS
        ).answering.questions
        for requests, cache in ((16, 0), (4096, 0), (4096, 1 << 15))
    ]  # fmt: skip
    assert requested_each[0] > requested_each[1] == requested_each[2] > 50


@pytest.mark.parametrize("lanes_block", [(1, 32), (1, 256), (3, 64)])
@pytest.mark.parametrize("requests", [16, 4096])
@pytest.mark.parametrize("arc_cache", [0, 16, 32, 256, 1 << 16])
def test_pieces_of_longer_chains(graph, small, arc_cache, requests, lanes_block):
    """A word is up to four pieces, some words are unknown; a table may hold them all, or be too small at first."""
    large = random_model(np.random.default_rng(6), WORDS[:44], 4, share=0.2, cost=lambda r: float(r.gamma(4.0)))
    for number, schedule in enumerate(schedules(3)):
        seen, answering = check(
            graph, (large, small), BATCH[:3], place="arcs requested", arc_cache=arc_cache, room=ROOMY,
            shape=Shape("wide", *lanes_block), schedule=schedule, every=(20, 300)[number % 2], requests=requests,
            unknown_words="unk", **OPTIONS,
        )  # fmt: skip
        assert seen.stats.distinct_lookups >= seen.stats.lookup_misses > 0
        if seen.launches == 1:
            assert seen.stats.lookup_misses <= answering.questions, "ends of sentences are not counted"


def test_words_share_what_they_back_off_by_and_where_they_end():
    """a and b back off from the beginning of a sentence, c after a and after b ends in the same arc."""
    words = ["a", "b", "c"]
    all_words = {"a": 1.25, "b": 1.5, "c": 2.0, "</s>": 1.0}
    large = language_model(
        words,
        {(): (all_words, 0.0), ("<s>",): ({"c": 0.5}, 0.75), ("a",): ({"a": 0.5}, 0.25), ("b",): ({"a": 1.0}, 0.125)},
    )
    small = language_model(words, {(): (all_words, 0.0)})
    plain = Graph.from_arcs(
        (np.array([0, 0, 1, 1]), np.array([1, 1, 2, 2]), np.array([1, 2, 1, 2]), np.array([1, 2, 3, 3]),
         np.zeros(4, np.float32)), num_states=3, num_columns=2, finals={2: 0.0},
    )  # fmt: skip
    log_probs = np.full((2, 2), -1.0, np.float32)
    for schedule in schedules(5):
        for utterances, arc_cache in ((1, 0), (3, 0), (1, 1 << 16)):
            seen, answering = check(
                over(plain, small, words), (large, small), [log_probs] * utterances, beam=20.0, place="arcs requested",
                room=ROOMY, requests=4096, arc_cache=arc_cache, shape=ONE, schedule=schedule, every=20,
                wait_cycles=30_000,
            )  # fmt: skip
            # (<s>, 0), a, b; (a, 0), (b, 0), c; </s>
            assert (answering.questions, answering.rounds) == (7, 3)
            counted = seen.stats.lookups, seen.stats.distinct_lookups, seen.stats.lookup_misses
            assert counted == (6 * utterances, 8 * utterances, 6), "(<s>, 0) and c are known"


def test_histories_share_a_question_of_the_large_model(tmp_path):
    """a and b are histories of the small model alone: one request to the large one is about c, and both wait for it."""
    kenlm_files.need_kenlm()
    words = ["a", "b", "c"]
    large = KenLM(tied_arpa(tmp_path / "lm.arpa", words, ["c"]))
    all_words = {"a": 1.25, "b": 1.5, "c": 2.0, "</s>": 1.0}
    small = language_model(words, {(): (all_words, 0.0), ("a",): ({"c": 0.5}, 0.25), ("b",): ({"c": 0.75}, 0.25)})
    plain = Graph.from_arcs([(0, 1, 1, 1, 0.0), (0, 1, 1, 2, 0.0), (1, 2, 1, 3, 0.0)], finals={2: 0.0}, num_columns=1)
    for schedule in schedules(5):
        for arc_cache in (0, 512):
            _, answering = check(
                over(plain, small, words), (large, small), [np.zeros((2, 1), np.float32)], beam=20.0, place="kenlm",
                room=ROOMY, shape=ONE, schedule=schedule, arc_cache=arc_cache,
            )  # fmt: skip
            assert (answering.questions, answering.rounds) == (4, 3)  # a and b; c; </s>


def test_words_of_histories_that_another_block_has_sent(tmp_path):
    """The first utterance sends requests for all words at once. The second one comes when they are in the cache: it
    compares what a and b leave, sends no request, and so has their order from the block that has waited for answers."""
    kenlm_files.need_kenlm()
    words = ["b", "a", "d", "e", "f", "c"]
    large = KenLM(tied_arpa(tmp_path / "lm.arpa", words, words[:5]))
    small = language_model(words, {(): (dict.fromkeys([*words, "</s>"], 0.5), 0.0)})
    said = [(0, 1, 1 + (word > 2), word, 0.0) for word in range(1, 6)]  # a and b in one column, the others in another
    plain = Graph.from_arcs([*said, (1, 1, 1, 0, 0.0)], finals={1: 0.0}, num_columns=2)
    batch = [np.full((40, 2), np.log(0.5), np.float32), np.array([[0.0, -40.0]] * 2, np.float32)]
    for schedule in schedules(5):
        for step in (2000, 8000):
            check(
                over(plain, small, words), (large, small), batch, beam=8.0, hypotheses_per_state=1, place="kenlm",
                room=ROOMY, shape=Shape(lanes=2, block=32), schedule=schedule, arc_cache=1 << 17, every=20,
                parts=(384, 2048, 1 << 10), arrivals=[step],
            )  # fmt: skip


def test_log_probs_come_late_too(graph, requested):
    for number, schedule in enumerate(schedules(10)):
        arrivals = np.sort(np.random.default_rng(number).integers(0, 20_000, 4)).tolist()
        check(
            graph, batch=BATCH, room=ROOMY, shape=Shape(lanes=1 + number % 5, block=32), schedule=schedule,
            parts=(128, 512, 64 << number % 4), arrivals=arrivals, hypotheses_per_state=2, every=100, requests=16,
            wait_cycles=300, **requested, **OPTIONS,
        )  # fmt: skip
