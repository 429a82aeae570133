"""Rescoring with a large language model on a real GPU: the CPU engine's bytes, wherever the model lives.

Real speech is the demo's, with the novels' 3-gram over a graph of a pruned one; and, where ``make gpu-graphs`` has
built it, the graph of 512 pieces with its pruned 3-gram below the 3-gram of the books.
"""

import ctypes
import gc
import mmap
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from arcbeam import CtcDecoder, Graph, LanguageModel, SymbolTable
from arcbeam.gpu import _cuda
from arcbeam.gpu.tuned import search_plan
from tests.decode.equality import same
from tests.decode.language_models import random_model
from tests.decode.random_graphs import random_graph, random_log_probs
from tests.gpu.demo_models import demo_speech
from tests.gpu.sanitized import TIGHT
from tests.rescore.placed import kenlm

ROOT = Path(__file__).resolve().parents[2]
WORDS = [f"w{i}" for i in range(1, 50)]
# Where, the cache, and the budget, which leaves no room for the index if it is one.
PLACES = [
    ("resident", None, None), ("resident", "64kB", None), ("host-direct", None, None), ("host-direct", 0, None),
    ("host-direct", "1kB", 1000), ("host-direct", 0, 1), ("host", None, None), ("host", 0, None), ("host", "1kB", None),
]  # fmt: skip
COUNTED = ("frames", "tokens", "leaving_arcs", "admitted", "lookups")


def made(seed, states, columns):
    """A graph with its small model, and a large one."""
    rng = np.random.default_rng(seed)
    cost = (lambda r: float(r.gamma(4.0))) if seed % 2 == 0 else (lambda r: int(r.integers(0, 8)) / 4)
    large, small = (random_model(rng, WORDS, order, share=share, cost=cost) for order, share in ((3, 0.3), (2, 0.3)))
    fields = {"word_symbols": SymbolTable.from_list(["<eps>", *WORDS]), "meta": {"lm_digest": small.digest}}
    graph = Graph(**random_graph(seed, states=states, columns=columns).fields() | fields)
    return graph, {"language_model": large, "graph_language_model": small}


def agree(graph, models, batch, place=PLACES[0], **options):
    gpu = CtcDecoder(
        graph, device="cuda", placement=place[0], arc_cache=place[1], gpu_budget=place[2], **models, **options
    )
    cpu = CtcDecoder(graph, device="cpu", **models, **options)
    wanted = cpu.decode(batch)
    for _ in range(2):  # the second time with a warm cache
        same(gpu.decode(batch), wanted)
        for name in COUNTED:
            assert getattr(gpu.stats, name) == getattr(cpu.stats, name), name
    return gpu


SEARCHES = [
    {"beam": 17.0, "max_active": 10_000, "hypotheses_per_state": 3},
    {"beam": 8.0, "max_active": 500, "hypotheses_per_state": None},
    {"beam": 8.0, "max_active": None, "hypotheses_per_state": 1, "acoustic_scale": 0.5, "blank_penalty": 0.5},
    {"beam": 12.0, "max_active": 300, "hypotheses_per_state": 8, "lm_scale": 0.75},
]


@pytest.mark.parametrize("search", SEARCHES, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_random_graphs(seed, search):
    columns = (32, 29, 513, 5)[seed]
    graph, models = made(seed, (2000, 20_000, 5000, 100)[seed], columns)
    batch = [random_log_probs(i, 1 + 53 * i % 60, columns) for i in range(24)]
    agree(graph, models, batch, **search)


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("n", [1, 3, None])
def test_placements(place, n):
    graph, models = made(6, 3000, 32)
    batch = [random_log_probs(i, 1 + 37 * i % 50) for i in range(150)]
    decoder = agree(graph, models, batch, place, beam=8.0, max_active=400, hypotheses_per_state=n)
    stats = decoder.stats
    assert stats.distinct_lookups >= stats.lookup_misses
    assert stats.lookups >= stats.distinct_lookups or decoder._search.engine.placement == "host"
    assert decoder._search.engine.placement == place[0]


@pytest.mark.parametrize("shape", [search_plan.CLUSTER._replace(cluster=blocks) for blocks in (8, 4, 2)], ids=repr)
@pytest.mark.parametrize("team_tokens", [1, 64, 1 << 30])
def test_clusters(monkeypatch, shape, team_tokens):
    monkeypatch.setattr(search_plan, "launch_shapes", lambda *_: (shape, search_plan.WIDE))
    monkeypatch.setattr(search_plan, "RESCORING_TEAM_TOKENS", team_tokens)
    graph, models = made(6, 3000, 32)
    batch = [random_log_probs(i, 1 + 37 * i % 50) for i in range(8)]  # as few as clusters are for
    for search in SEARCHES:
        agree(graph, models, batch, **search)


def test_hot_utterances_go_on_in_clusters(monkeypatch):
    monkeypatch.setattr(search_plan, "launch_shapes", lambda *_: (search_plan.DENSE,))
    monkeypatch.setattr(search_plan, "RESCORING_HOT_TOKENS", 1)
    monkeypatch.setattr(search_plan, "RESCORING_TEAM_TOKENS", 1)
    graph, models = made(6, 3000, 32)
    batch = [random_log_probs(i, 1 + 37 * i % 50) for i in range(40)]
    for _ in range(5):
        agree(graph, models, batch, **SEARCHES[0])


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_everything_grows(place, monkeypatch):
    monkeypatch.setattr(search_plan, "first_room", lambda max_active: TIGHT)
    graph, models = made(8, 2000, 32)
    batch = [random_log_probs(i, 1 + 37 * i % 40) for i in range(20)]
    agree(graph, models, batch, place, beam=10.0, max_active=1000, hypotheses_per_state=3)


@pytest.mark.parametrize("cache", [None, 0, "1kB"])
@pytest.mark.parametrize("n", [1, 3, None])
def test_kenlm(n, cache):
    """Looked up by the host while the kernel runs."""
    graph, models = made(6, 3000, 32)
    batch = [random_log_probs(i, 1 + 37 * i % 50) for i in range(150)]
    agree(
        graph, models | {"language_model": kenlm()}, batch, ("cpu", cache, None), beam=8.0, max_active=400,
        hypotheses_per_state=n, unknown_words="unk",
    )  # fmt: skip


@pytest.mark.parametrize("of_kenlm", [False, True])
def test_the_host_is_late(monkeypatch, of_kenlm):
    """Lanes stop for want of answers, and are taken up again; tables and the room for histories grow."""
    monkeypatch.setattr(search_plan, "ANSWERING_THREADS", 0)
    monkeypatch.setattr(search_plan, "WAIT_CYCLES", 1)
    monkeypatch.setattr(search_plan, "REQUEST_ENTRIES", 16)
    monkeypatch.setattr(search_plan, "REQUEST_HISTORIES", 64)
    graph, models = made(8, 2000, 32)
    place: tuple[str, object, None] = ("host", 0, None)
    if of_kenlm:
        models, place = models | {"language_model": kenlm()}, ("cpu", "1kB", None)
    batch = [random_log_probs(i, 1 + 7 * i % 20) for i in range(20)]
    agree(graph, models, batch, place, beam=8.0, max_active=300, hypotheses_per_state=3, unknown_words="unk")


def refusing(table, *calls):
    """A driver's table, given by its address, in which these calls answer that there is no memory; and what to keep."""
    header = (ROOT / "pyx" / "arcbeam" / "gpu" / "_driver_table.hpp").read_text()
    names = re.findall(r"\(\*(\w+)\)\(", header[header.index("struct DriverTable") :])
    copy = (ctypes.c_void_p * len(names)).from_buffer_copy(ctypes.string_at(table, 8 * len(names)))
    refuse = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint)(lambda *_: 2)
    for call in calls:
        copy[names.index(call)] = ctypes.cast(refuse, ctypes.c_void_p)
    return copy, refuse


@pytest.fixture
def nothing_is_pinned():
    """The driver pins no memory, neither its own nor what is there."""
    from arcbeam.gpu import _cydriver

    gc.collect()
    table, kept = refusing(_cydriver.address(), "host_allocate", "host_register")
    try:
        _cuda.use_driver(ctypes.addressof(table))
    except RuntimeError as error:  # owned by another test's decoder
        pytest.skip(str(error))
    yield
    gc.collect()
    _cuda.use_driver(0)
    del kept


@pytest.mark.parametrize("of_kenlm", [False, True])
def test_pinned_memory_that_is_refused(nothing_is_pinned, of_kenlm):
    """Copies wait, and buffers are managed memory; the bytes are the same, and one warning says so."""
    graph, models = made(6, 3000, 32)
    place: tuple[str, object, None] = ("host", 0, None)
    if of_kenlm:
        models, place = models | {"language_model": kenlm()}, ("cpu", 0, None)
    batch = [random_log_probs(i, 1 + 37 * i % 50) for i in range(150)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        agree(
            graph, models, batch, place, beam=8.0, max_active=400, hypotheses_per_state=3, unknown_words="unk"
        )  # fmt: skip
    assert len([one for one in caught if "the host does not pin" in str(one.message)]) == 1


def test_arcs_of_a_file_are_pinned_where_they_are(tmp_path):
    graph, models = made(6, 3000, 32)
    models["language_model"].save(tmp_path / "large.lm")
    large = LanguageModel.load(tmp_path / "large.lm")
    batch = [random_log_probs(i, 1 + 37 * i % 50) for i in range(50)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        decoder = agree(graph, models | {"language_model": large}, batch, ("host", 0, None), beam=8.0, max_active=400)
    refused = [str(one.message) for one in caught if "does not pin the arcs" in str(one.message)]
    arcs = sum(large.columns[name].nbytes for name in ("arcs", "backoff.weights"))
    assert refused or decoder.memory().pinned > arcs - 4 * mmap.PAGESIZE
    agree(graph, models | {"language_model": large}, batch, ("resident", 0, None), beam=8.0, max_active=400)
    del decoder
    gc.collect()
    with warnings.catch_warnings(record=True) as caught:  # once released they can be pinned again
        warnings.simplefilter("always")
        agree(graph, models | {"language_model": large}, batch, ("host", 0, None), beam=8.0, max_active=400)
    assert len([one for one in caught if "does not pin the arcs" in str(one.message)]) == len(refused)


@pytest.mark.parametrize("size", [1, 131, 133, 600])
def test_sizes_of_batches(size):
    graph, models = made(2, 2000, 32)
    batch = [random_log_probs(seed, 1 + seed % 17) for seed in range(size)]
    agree(graph, models, batch, PLACES[3], beam=8.0, max_active=200, hypotheses_per_state=3)


# Real speech


@pytest.fixture(scope="module")
def demo():
    """Log-probs, the graph of a pruned model, and both models."""
    return demo_speech()


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("n", [1, 3, 8, None])
def test_demo_speech(demo, n, place):
    graph, models, batch = demo
    gpu = agree(graph, models, batch, place, beam=17.0, acoustic_scale=1.5, lm_scale=1.2, hypotheses_per_state=n)
    if place == ("host-direct", None, None):
        assert gpu.stats.lookup_misses * 10 < gpu.stats.distinct_lookups, "a warm cache answers"


def test_an_hour_of_demo_speech(demo):
    graph, models, batch = demo
    rows = np.concatenate(batch)
    hour = np.tile(rows, (90_000 // len(rows) + 1, 1))[:90_000]
    gpu = agree(graph, models, [hour], beam=12.0, max_active=2000, acoustic_scale=1.5, hypotheses_per_state=3)
    assert gpu.memory().token_log <= 64 << 20


@pytest.mark.parametrize("search", [(17.0, 10_000), (12.0, 5_000)], ids=str)
@pytest.mark.parametrize("n", [1, 3, None])
def test_workloads(n, search):
    from benchmarks.data import datasets, graphs
    from benchmarks.engine import rescoring_models

    try:
        files = graphs.files("spm512-3gram")
        if not files.arcbeam.exists():
            pytest.skip(f"{files.arcbeam} is not there: make gpu-graphs builds it")
        models = rescoring_models.load("spm512-3gram")
        batch = [np.ascontiguousarray(u) for u in datasets.load("workload-512", 64).utterances]
    except (datasets.DataMissing, FileNotFoundError) as error:
        pytest.skip(str(error))
    agree(files.graph, models, batch, beam=search[0], max_active=search[1], hypotheses_per_state=n)
