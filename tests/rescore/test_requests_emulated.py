"""Lanes that ask the host for arcs, or for all that the large model says: the twin's bytes, whenever answers come."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import Graph, KenLM, SymbolTable
from arcbeam.gpu.tuned import search_plan
from tests.decode import graphs, kenlm_files
from tests.decode.language_models import language_model, over, random_model
from tests.decode.search_host import FromHost, Room, Shape, as_launched
from tests.decode.test_kenlm import tied_arpa
from tests.decode.test_rescoring import WORDS as FEW_WORDS
from tests.decode.test_rescoring import language_models, with_words
from tests.hypothesis_examples import examples
from tests.rescore.rescore_host import ARCS, MODEL, check
from tests.simt.build import schedules

WORDS = [f"w{i}" for i in range(1, 50)]
GENEROUS = Room(capacity=512, candidates=2048, table_size=1024, spill_capacity=512, log=4096, paths=4096)
OPTIONS = {"beam": 6.0, "max_active": 40}
BESIDE = {"wait_cycles": 3000, "requests": 256, "histories": 5000}  # with answers that come while the kernel runs


@pytest.fixture(scope="module")
def small():
    return random_model(np.random.default_rng(4), WORDS, 2, share=0.3, cost=lambda r: float(r.gamma(4.0)))


@pytest.fixture(scope="module", params=[ARCS, MODEL], ids=["arcs", "model"])
def asked(request, small, tmp_path_factory):
    """The large model, and what the host is asked for."""
    if request.param == ARCS:
        large = random_model(np.random.default_rng(5), WORDS, 3, share=0.2, cost=lambda r: float(r.gamma(4.0)))
        return {"models": (large, small), "asks": ARCS}
    kenlm_files.need_kenlm()
    arpa = kenlm_files.random_ngrams(WORDS[:44], 3, 5).write(tmp_path_factory.mktemp("kenlm") / "lm.arpa")
    return {"models": (KenLM(arpa), small), "asks": MODEL, "unknown_words": "unk"}


@pytest.fixture(scope="module")
def graph(small):
    fields = {"word_symbols": SymbolTable.from_list(["<eps>", *WORDS]), "meta": {"lm_digest": small.digest}}
    return Graph(**graphs.random_graph(4, states=120, columns=12).fields() | fields)


@pytest.fixture(scope="module")
def batch():
    return [graphs.random_log_probs(seed, frames, 12) for seed, frames in enumerate((5, 0, 9, 1, 7))]


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    graphs.graphs(blank=3),
    language_models(),
    st.lists(graphs.log_probs(), min_size=1, max_size=3),
    st.sampled_from([0.0, 2.0, 17.0, float("inf")]),
    st.sampled_from([None, 1, 2, 3]),
    st.sampled_from([0, 1, 16]),
    st.sampled_from([Room(), GENEROUS]),
    st.sampled_from([0, 7, 60, 1000]),
    st.sampled_from([0, 1, 20]),
    st.integers(0, 2**32),
)
def test_random_graphs(graph, models, batch, beam, n, cache, room, every, looks, seed):
    graph = with_words(graph, models[1])
    check(
        graph, models, batch, beam=beam, hypotheses_per_state=n, cache=cache, room=room,
        shape=Shape(block=32), schedule={"seed": seed}, asks=ARCS, answers_every=every, looks=looks,
    )  # fmt: skip


@pytest.fixture(scope="module")
def kenlm_models(tmp_path_factory):
    kenlm_files.need_kenlm()
    folder = tmp_path_factory.mktemp("kenlm")
    found = []
    for seed in range(8):
        words = FEW_WORDS if seed % 4 else FEW_WORDS[:2]
        arpa = kenlm_files.random_ngrams(words, 2 + seed % 3, seed, few=seed < 4).write(folder / f"{seed}.arpa")
        kind = kenlm_files.TRIE if seed % 2 else None
        found.append(KenLM(kenlm_files.write_binary(arpa, folder / f"{seed}.binary", kind) if kind else arpa))
    return found


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.data(),
    graphs.graphs(blank=3),
    st.lists(graphs.log_probs(), min_size=1, max_size=3),
    st.sampled_from([0.5, 2.0, 17.0, float("inf")]),
    st.sampled_from([None, 1, 2, 3]),
    st.sampled_from([0, 16]),
    st.sampled_from([Room(), GENEROUS]),
    st.sampled_from([0, 7, 60]),
    st.booleans(),
)
def test_random_graphs_with_kenlm(kenlm_models, data, graph, batch, beam, n, cache, room, every, few):
    """Many ties: the words of histories settle them."""
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    cost = (lambda r: int(r.integers(0, 3)) / 2) if few else (lambda r: int(r.integers(0, 99)) / 64)
    small = random_model(rng, FEW_WORDS, 2, cost=cost)
    check(
        with_words(graph, small), (data.draw(st.sampled_from(kenlm_models)), small), batch, beam=beam,
        hypotheses_per_state=n, cache=cache, room=room, shape=Shape(block=32), asks=MODEL, answers_every=every,
        schedule={"seed": data.draw(st.integers(0, 2**32))}, unknown_words="unk",
    )  # fmt: skip


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


@pytest.mark.parametrize("n", [2, None])
@pytest.mark.parametrize("seed", range(6))
def test_ties_by_words(tmp_path, seed, n):
    kenlm_files.need_kenlm()
    graph, models = tied_by_words(tmp_path, seed)
    check(
        graph, models, [np.full((10, 3), -1.0, np.float32)], beam=2.0, hypotheses_per_state=n, room=GENEROUS,
        schedule={"seed": seed}, asks=MODEL, answers_every=20, cache=16,
    )  # fmt: skip


def test_schedules(graph, asked, batch):
    for number, schedule in enumerate(schedules(20)):
        host = check(
            graph, batch=batch[:3], hypotheses_per_state=3 if number % 2 else None, cache=16, room=GENEROUS,
            schedule=schedule, answers_every=(50, 400)[number % 2], **BESIDE, **asked, **OPTIONS,
        )  # fmt: skip
        if schedule["policy"] == "random":
            assert host.launches == 1, "a block that waits lets the others go on"


@pytest.mark.parametrize("launch", ["WIDE", "DENSE"])
def test_launches_of_the_engine(graph, asked, batch, launch):
    shape = as_launched(getattr(search_plan, launch), lanes=2)
    for schedule in schedules(2):
        check(
            graph, batch=batch[:4:3], hypotheses_per_state=3, cache=16, room=GENEROUS, shape=shape, schedule=schedule,
            answers_every=100, **BESIDE, **asked, **OPTIONS,
        )  # fmt: skip


def test_both_halves_have_answer_batches(graph, asked, batch):
    """Answers of several lanes travel together, each half's by a way of its own, and some are under way for long."""
    if asked["asks"] == MODEL:
        pytest.skip("KenLM's answers do not travel")
    for number, schedule in enumerate(schedules(20)):
        host = check(
            graph, batch=batch * 2, hypotheses_per_state=2, cache=(0, 16, 4096)[number % 3], room=GENEROUS,
            shape=Shape(lanes=1 + number % 5, block=32), schedule=schedule, answers_every=(20, 150)[number % 2],
            looks=(0, 1, 4, 40)[number % 4], **BESIDE, **asked, **OPTIONS,
        )  # fmt: skip
        even, odd = host.lookups.sent
        assert even + odd > 0 and (odd == 0 or number % 5 > 0)
        if number % 3 == 0:  # a cache may know all that a half needs
            assert even > 0 and (odd > 0) == (number % 5 > 0)
        assert even + odd <= host.lookups.rounds or host.launches > 1, "a launch sends again what came too late"


def test_schedules_without_answers_beside_the_kernel(graph, asked, batch):
    for schedule in schedules(10):
        host = check(graph, batch=batch[:2], hypotheses_per_state=2, cache=16, schedule=schedule, **asked, **OPTIONS)
        assert host.launches > 5


def test_without_the_cache_every_question_is_asked_once(graph, asked, batch):
    """A table that holds all answers of a batch asks nothing twice."""
    shape = Shape(lanes=1, block=32)
    asked_each = [
        check(
            graph, batch=batch, room=GENEROUS, shape=shape, requests=requests, answers_every=50, wait_cycles=3000,
            cache=cache, **asked, **OPTIONS,
        ).lookups.questions
        for requests, cache in ((16, 0), (4096, 0), (4096, 1024))
    ]  # fmt: skip
    assert asked_each[0] > asked_each[1] == asked_each[2] > 50


@pytest.mark.parametrize("lanes_block", [(1, 32), (1, 256), (3, 64)])
@pytest.mark.parametrize("requests", [8, 4096])
@pytest.mark.parametrize("cache", [0, 1, 2, 16, 4096])
def test_pieces_of_longer_chains(graph, small, batch, cache, requests, lanes_block):
    """A word is up to four pieces, some words are unknown; a table may hold them all, or be too small at first."""
    large = random_model(np.random.default_rng(6), WORDS[:44], 4, share=0.2, cost=lambda r: float(r.gamma(4.0)))
    for number, schedule in enumerate(schedules(3)):
        host = check(
            graph, (large, small), batch[:3], asks=ARCS, cache=cache, room=GENEROUS, shape=Shape("wide", *lanes_block),
            schedule=schedule, answers_every=(20, 300)[number % 2], wait_cycles=3000, requests=requests,
            unknown_words="unk", **OPTIONS,
        )  # fmt: skip
        _, distinct, misses, *_ = host.counters.tolist()
        assert distinct >= misses > 0
        if host.launches == 1:
            assert misses <= host.lookups.questions, "ends of sentences are not counted"


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
    fields = {"word_symbols": SymbolTable.from_list(["<eps>", *words]), "meta": {"lm_digest": small.digest}}
    graph = Graph(**plain.fields() | fields)
    log_probs = np.full((2, 2), -1.0, np.float32)
    for schedule in schedules(5):
        for utterances, cache in ((1, 0), (3, 0), (1, 4096)):
            host = check(
                graph, (large, small), [log_probs] * utterances, beam=20.0, asks=ARCS, room=GENEROUS, requests=4096,
                cache=cache, shape=Shape(lanes=1, block=32), schedule=schedule, answers_every=20, wait_cycles=30_000,
            )  # fmt: skip
            # (<s>, 0), a, b; (a, 0), (b, 0), c; </s>
            assert host.lookups.questions == 7 and host.lookups.rounds == 3
            assert host.counters[:3].tolist() == [6 * utterances, 8 * utterances, 6], "(<s>, 0) and c are known"


def test_histories_share_a_question_of_the_large_model(tmp_path):
    """a and b are histories of the small model alone: the large one is asked once about c, and both wait for it."""
    kenlm_files.need_kenlm()
    words = ["a", "b", "c"]
    large = KenLM(tied_arpa(tmp_path / "lm.arpa", words, ["c"]))
    all_words = {"a": 1.25, "b": 1.5, "c": 2.0, "</s>": 1.0}
    small = language_model(words, {(): (all_words, 0.0), ("a",): ({"c": 0.5}, 0.25), ("b",): ({"c": 0.75}, 0.25)})
    plain = Graph.from_arcs([(0, 1, 1, 1, 0.0), (0, 1, 1, 2, 0.0), (1, 2, 1, 3, 0.0)], finals={2: 0.0}, num_columns=1)
    for schedule in schedules(5):
        for cache in (0, 16):
            host = check(
                over(plain, small, words), (large, small), [np.zeros((2, 1), np.float32)], beam=20.0, asks=MODEL,
                room=GENEROUS, shape=Shape(lanes=1, block=32), schedule=schedule, cache=cache, answers_every=50,
                **BESIDE,
            )  # fmt: skip
            assert (host.lookups.questions, host.lookups.rounds) == (4, 3)  # a and b; c; </s>


def test_words_of_histories_that_another_block_has_asked_for(tmp_path):
    """The first utterance asks about all words at once. The second one comes when they are in the cache: it compares
    what a and b leave, asks nothing, and so owes their order to the block that has waited for the answers."""
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
                over(plain, small, words), (large, small), batch, beam=8.0, hypotheses_per_state=1, asks=MODEL,
                room=GENEROUS, shape=Shape(lanes=2, block=32), schedule=schedule, cache=4096, answers_every=20,
                from_host=FromHost(batch, 64, [0.5], [0, step]), **BESIDE,
            )  # fmt: skip


def test_log_probs_come_late_too(graph, asked, batch):
    for number, schedule in enumerate(schedules(10)):
        random = np.random.default_rng(number)
        steps = np.sort(random.integers(0, 20_000, 4)).tolist()
        coming = FromHost(batch, 1 + number % 4, random.random(3).tolist(), steps, wait_cycles=300)
        check(
            graph, batch=batch, room=GENEROUS, shape=Shape(lanes=1 + number % 5, block=32), schedule=schedule,
            from_host=coming, hypotheses_per_state=2, answers_every=100, **asked, **OPTIONS,
        )  # fmt: skip


def test_a_search_dies(graph, asked, batch):
    spoiled = [logp.copy() for logp in batch]
    spoiled[2][2] = -np.inf
    check(graph, batch=spoiled, room=GENEROUS, answers_every=100, **asked, **OPTIONS)


def test_the_log_is_collected(graph, asked):
    long = [graphs.random_log_probs(31, 60, 12, sharpness=6.0)]
    check(
        graph, batch=long, beam=4.0, max_active=40, hypotheses_per_state=3, room=Room(512, 2048, 1024, 512, 600, 4096),
        shape=Shape(lanes=1, block=32), answers_every=50, **BESIDE, **asked,
    )  # fmt: skip


def test_histories_longer_than_lanes_that_share_a_look_up():
    rng = np.random.default_rng(3)
    models = random_model(rng, WORDS[:2], 11, share=0.95), random_model(rng, WORDS[:2], 2)
    source, target, labels = rng.integers(0, 6, 30), rng.integers(0, 6, 30), rng.integers(1, 4, 30)
    fields = {"word_symbols": SymbolTable.from_list(["<eps>", *WORDS[:2]]), "meta": {"lm_digest": models[1].digest}}
    plain = Graph.from_arcs(
        (source, target, labels, rng.integers(1, 3, 30), rng.random(30).astype(np.float32)), num_states=6,
        num_columns=3, finals={0: 0.0},
    )  # fmt: skip
    check(
        Graph(**plain.fields() | fields), models, [graphs.random_log_probs(0, 14, 3)], beam=8.0, asks=ARCS,
        hypotheses_per_state=4, room=GENEROUS, answers_every=50, **BESIDE,
    )  # fmt: skip
