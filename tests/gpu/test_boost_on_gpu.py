"""Boosts on a real GPU, without a language model and with one: the CPU engine's bytes, paths and lattices."""

import numpy as np
import pytest

from arcbeam import Boost, CtcDecoder, Graph, SymbolTable
from arcbeam.gpu.tuned import search_plan
from tests.decode import kenlm_files
from tests.decode.equality import same
from tests.decode.language_models import over
from tests.decode.lattices import lattices, packed
from tests.decode.random_graphs import random_graph, random_log_probs
from tests.decode.test_stream_states import with_moves
from tests.decode.test_streams_emulated import on_both
from tests.gpu.test_rescoring_on_gpu import WORDS, made
from tests.rescore import searches
from tests.rescore import test_new_words_cuda_engine as of_engine
from tests.rescore.placed import kenlm
from tests.rescore.searches import new_words, open_graph

# Of a large model: where it is, the cache, and the budget.
PLACES = [
    ("resident", None, None), ("resident", "64kB", None), ("host-direct", 0, None), ("host-direct", "1kB", 1000),
    ("host", None, None), ("host", 0, None),
]  # fmt: skip
pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")


def random_boost(seed, count):
    rng = np.random.default_rng(seed)
    phrases = {" ".join(rng.choice(WORDS, rng.integers(1, 5))): float(rng.normal(2.0, 3.0)) for _ in range(count)}
    return Boost(phrases)


def boosts_of(batch, count=60):
    """One utterance in five has none."""
    return [random_boost(seed, count) if seed % 5 else None for seed in range(len(batch))]


def agree(graph, batch, boosts, where=None, **options):
    gpu = CtcDecoder(graph, device="cuda", **(where or {}), **options)
    cpu = CtcDecoder(graph, device="cpu", **options)
    wanted = cpu.decode(batch, boost=boosts)
    for _ in range(2):  # the second time with a warm cache
        found = gpu.decode(batch, boost=boosts)
        same(found, wanted)
        assert [one.boosts for one in found] == [one.boosts for one in wanted]
    assert gpu.stats.lookups == cpu.stats.lookups
    assert any(one.boosts for one in found)
    of_both = [lattices(decoder, batch, boost=boosts) for decoder in (gpu, cpu)]
    assert [packed(lattice) for lattice in of_both[0]] == [packed(lattice) for lattice in of_both[1]]
    same(gpu.decode(batch), cpu.decode(batch))  # the next batch has none
    return gpu


def worded(graph):
    return Graph(**graph.fields() | {"word_symbols": SymbolTable.from_list(["<eps>", *WORDS])})


@pytest.mark.parametrize("shape", [search_plan.WIDE, search_plan.DENSE])
@pytest.mark.parametrize("seed", range(3))
def test_without_a_language_model(room, monkeypatch, seed, shape):
    monkeypatch.setattr(search_plan, "launch_shapes", lambda *_: (shape, search_plan.WIDE))
    columns = (32, 29, 5)[seed]
    graph = worded(random_graph(seed, states=(2000, 20_000, 100)[seed], columns=columns))
    batch = [random_log_probs(i, 1 + 53 * i % 60, columns) for i in range(40)]
    agree(graph, batch, boosts_of(batch), beam=9.0, max_active=800)


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("n", [1, 3, None])
def test_with_a_language_model(room, place, n):
    graph, models = made(6, 3000, 32)
    batch = [random_log_probs(i, 1 + 37 * i % 50) for i in range(150)]
    where = {"placement": place[0], "arc_cache": place[1], "gpu_budget": place[2]}
    decoder = agree(graph, batch, boosts_of(batch), where, beam=8.0, max_active=400, hypotheses_per_state=n, **models)
    assert decoder._search.engine.placement == place[0]


@pytest.mark.parametrize("cache", [None, 0])
def test_with_kenlm(room, cache):
    """Histories are numbered as they are met, on a machine whose answers come in any order."""
    kenlm_files.need_kenlm()
    graph, models = made(6, 3000, 32)
    models |= {"language_model": kenlm(), "unknown_words": "unk"}
    batch = [random_log_probs(i, 1 + 37 * i % 50) for i in range(60)]
    where = {"placement": "cpu", "arc_cache": cache}
    agree(graph, batch, boosts_of(batch), where, beam=8.0, max_active=400, hypotheses_per_state=3, **models)


@pytest.mark.parametrize("seed", range(4))
def test_random_graphs_with_a_language_model(seed):
    """Costs that are often equal among them; one list for all utterances, and a long one."""
    columns = (32, 29, 513, 5)[seed]
    graph, models = made(seed, (2000, 20_000, 5000, 100)[seed], columns)
    batch = [random_log_probs(i, 1 + 53 * i % 60, columns) for i in range(24)]
    options = {"beam": 12.0, "max_active": 2000, "hypotheses_per_state": (3, None)[seed % 2], "lm_scale": 0.75}
    agree(graph, batch, random_boost(seed, 5000), **options, **models)
    agree(graph, batch, boosts_of(batch), **options, **models)


@pytest.mark.parametrize("topology", ["compact", "normal"])
@pytest.mark.parametrize("seed", range(3))
def test_new_words(room, seed, topology):
    """A slot with many entrances; some lists have new words, some have none, and some utterances have no list."""
    graph = open_graph(seed, entrances=(1, 40, 200)[seed], topology=topology)
    batch = [random_log_probs(i, 1 + 37 * i % 80, 12) for i in range(60)]
    boosts = [one if i % 5 else None for i, one in enumerate(new_words(graph, len(batch)))]
    boosts[3] = Boost({WORDS[word - 1]: 2.0 for word in np.unique(graph.words)[:20] if word})
    agree(graph, batch, boosts, beam=9.0, max_active=800)
    found, wanted = (
        CtcDecoder(graph, device=device, beam=9.0, frame_shift=0.04).decode(
            batch, boost=boosts, nbest=3, confidence=True)
        for device in ("cuda", "cpu")
    )  # fmt: skip
    assert [one.words for one in found] == [one.words for one in wanted]
    assert [[entry.text for entry in one.nbest] for one in found] == [
        [entry.text for entry in one.nbest] for one in wanted
    ]
    known = {text for _, text in graph.word_symbols.items()}
    assert any(word.word not in known for one in found for word in one.words)


@pytest.mark.parametrize("place", of_engine.PLACES)
def test_new_words_with_a_language_model(room, place):
    """Small ones, streams among them, and larger ones."""
    if place == "kenlm":
        kenlm_files.need_kenlm()
    of_engine.with_a_language_model(place)
    models = {"language_model": kenlm() if place == "kenlm" else searches.LARGE, "unknown_words": "unk"}
    graph = over(open_graph(2, entrances=200), searches.SMALL)
    batch = [random_log_probs(i, 1 + 37 * i % 80, 12) for i in range(60)]
    boosts = [one if i % 5 else None for i, one in enumerate(new_words(open_graph(2), len(batch)))]
    options = {"graph_language_model": searches.SMALL, "beam": 9.0, "max_active": 800, "hypotheses_per_state": 3}
    agree(graph, batch, boosts, of_engine.PLACES[place], **models | options)


@pytest.mark.parametrize("seed", range(3))
def test_streams_of_new_words(room, seed):
    """In company with lists without new words and without lists; and with endpoints, saved and restored on the way."""
    graph = open_graph(seed, entrances=40)
    batch = [random_log_probs(i, 1 + 37 * i % 50, 12) for i in range(12)]
    boosts = [one if i % 3 else None for i, one in enumerate(new_words(graph, len(batch)))]
    on_both(batch, np.random.default_rng(seed), boosts, graph, beam=8.0, max_active=400)
    decoders = list(of_engine.both(graph, beam=8.0, max_active=400))
    found = with_moves(decoders, batch, np.random.default_rng(seed), boosts)
    same(found, decoders[1].decode(batch, boost=boosts))
    assert of_engine.sentences(seed) > 2


def test_nbest_lists(room):
    graph, models = made(2, 300, 12)
    batch = [random_log_probs(seed, 1 + 37 * seed % 101, 12) for seed in range(40)]
    parts = lambda one: [(entry.text, entry.score, entry.rescoring_score, entry.boosts) for entry in one.nbest]  # noqa: E731
    got, wanted = (
        [parts(one) for one in CtcDecoder(graph, device=device, beam=7.0, max_active=60, **models).decode(
            batch, boost=boosts_of(batch), nbest=5)]
        for device in ("cuda", "cpu")
    )  # fmt: skip
    assert got == wanted
