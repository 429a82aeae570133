"""Rescoring on a GPU, host side and kernel, without one: its results are the CPU engine's bytes."""

import gc
import sys

import numpy as np
import pytest

from arcbeam import CapacityError, CtcDecoder, CudaOutOfMemoryError, Graph, LanguageModel, SymbolTable, UnsupportedError
from arcbeam.gpu.tuned import (
    lm_placement,
    search_plan,  # fmt: skip
)
from arcbeam.lm import lm_file
from tests.decode import graphs
from tests.decode.equality import same
from tests.decode.language_models import random_model
from tests.gpu import sanitized_rescoring

WORDS = [f"w{i}" for i in range(1, 50)]
RNG = np.random.default_rng(4)
LARGE, SMALL = (
    random_model(RNG, WORDS, order, share=share, cost=lambda r: float(r.gamma(4.0)))
    for order, share in ((3, 0.2), (2, 0.3))
)
FIELDS = {"word_symbols": SymbolTable.from_list(["<eps>", *WORDS]), "meta": {"lm_digest": SMALL.digest}}
GRAPH = Graph(**graphs.random_graph(4, states=120, columns=12).fields() | FIELDS)
BATCH = [graphs.random_log_probs(seed, frames, 12) for seed, frames in enumerate((5, 0, 9, 1, 7))]
MODELS = {"language_model": LARGE, "graph_language_model": SMALL}
OPTIONS = {"beam": 6.0, "max_active": 40, "lm_scale": 0.75}


def on_gpu(graph=GRAPH, **options):
    return CtcDecoder(graph, device="cuda", **(MODELS | OPTIONS | options))


def on_cpu(batch=None, **options):
    return CtcDecoder(GRAPH, device="cpu", threads=1, **(MODELS | OPTIONS | options)).decode(
        BATCH if batch is None else batch
    )


def check_same(got, wanted):
    same(got, wanted)
    assert [h.rescoring_score for h in got] == [h.rescoring_score for h in wanted]


@pytest.mark.parametrize("n", [1, 3, None])
@pytest.mark.parametrize(
    ("placement", "cache", "budget"),
    [("resident", None, None), ("resident", "1kB", None), ("host-direct", None, None), ("host-direct", 0, None),
     ("host-direct", 0, 512), ("host-direct", "512", None), ("host-direct", "512", 512), ("host-direct", "1MB", None)],
)  # fmt: skip
def test_placements_and_caches(gpu, n, placement, cache, budget):
    """A budget of 512 bytes leaves no room for the index."""
    decoder = on_gpu(hypotheses_per_state=n, placement=placement, arc_cache=cache, gpu_budget=budget)
    cpu = CtcDecoder(GRAPH, device="cpu", hypotheses_per_state=n, **MODELS, **OPTIONS)
    check_same(decoder.decode(BATCH), cpu.decode(BATCH))
    first = decoder.stats
    for name in ("frames", "tokens", "leaving_arcs", "admitted", "lookups"):
        assert getattr(first, name) == getattr(cpu.stats, name) > 0
    assert first.lookups > first.distinct_lookups >= first.lookup_misses > 0
    loads = first.model_bytes_read / 32 / first.lookup_misses
    if budget is None:
        assert (loads > 4) == (placement == "resident")
    else:  # sectors: a chain, two buckets of two each for its states, a word
        assert 2 < loads < 1 + 2 * 2 * (LARGE.order - 1) + 1
    assert (decoder.memory().bucketed > LARGE.info().bytes) == (budget is not None)
    check_same(decoder.decode(BATCH), cpu.decode(BATCH))
    assert decoder.stats.lookups == first.lookups
    if cache == "1MB":
        assert decoder.stats.lookup_misses < first.lookup_misses // 4, "a cache with room for all is warm"
    if cache == 0 or (cache is None and placement == "resident"):
        assert decoder.stats.lookup_misses == decoder.stats.distinct_lookups


def test_memory_and_models_that_are_shared(gpu):
    first, second = on_gpu(), on_gpu(beam=3.0)
    assert first.memory().language_models > 0
    journal = len([line for line in gpu.fake.journal() if line[0] == "copy_to_device"])
    third = on_gpu(beam=4.0)
    sent = len([line for line in gpu.fake.journal() if line[0] == "copy_to_device"]) - journal
    assert sent <= 3, "labels and counters are a decoder's own, models and words are not"
    direct = on_gpu(placement="host-direct", arc_cache=0)
    assert direct.memory().pinned > third.memory().pinned
    del first, second, third, direct
    gc.collect()


def test_placements_of_other_devices(gpu):
    assert CtcDecoder(GRAPH, placement="cpu", **MODELS).device == "cpu"
    assert CtcDecoder(GRAPH, **MODELS).device == "cuda:0"
    with pytest.raises(UnsupportedError, match="placement: expected 'auto' or 'cpu' when the CPU decodes"):
        CtcDecoder(GRAPH, device="cpu", placement="resident", **MODELS)


def test_a_budget_chooses(gpu):
    assert on_gpu()._search.engine.placement == "resident"
    decoder = on_gpu(gpu_budget=4096)
    assert decoder._search.engine.placement == "host-direct"
    check_same(decoder.decode(BATCH), on_cpu())
    with pytest.raises(CapacityError, match=r"gpu_budget: the language model and its cache take .* as placement="):
        on_gpu(gpu_budget=4096, placement="resident")
    with pytest.raises(CapacityError, match="gpu_budget"):
        on_gpu(gpu_budget=4096, placement="host-direct", arc_cache=8192)


def test_a_memory_limit_counts_the_models(gpu):
    with pytest.raises(CapacityError, match="memory_limit: the graph and the language models need"):
        on_gpu(memory_limit=on_gpu().memory().graph + 1000)


def test_pinned_memory_that_is_refused(gpu):
    gpu.fake.fail("managed_allocate", 2)
    gpu.fake.fail("host_allocate", 2)
    with pytest.warns(UserWarning, match="the host does not pin .* kept on the GPU"):
        decoder = on_gpu(placement="host-direct")
    assert decoder._search.engine.placement == "resident"
    check_same(decoder.decode(BATCH), on_cpu())


def test_buckets_are_shared_and_given_back(gpu):
    first, second = (on_gpu(gpu_budget=512, hypotheses_per_state=n) for n in (2, 3))
    made = len([line for line in gpu.fake.journal() if line[0] == "host_allocate"])
    third = on_gpu(gpu_budget=512, beam=3.0)
    assert len([line for line in gpu.fake.journal() if line[0] == "host_allocate"]) - made <= 1, "its counters"
    assert first.memory().bucketed == second.memory().bucketed == third.memory().bucketed > 0
    assert first.memory().pinned > first.memory().bucketed
    check_same(first.decode(BATCH), on_cpu(hypotheses_per_state=2))
    check_same(second.decode(BATCH), on_cpu(hypotheses_per_state=3))


def test_a_gpu_that_cannot_hold_the_model_either(gpu):
    limit = on_gpu().memory().graph + 1000
    gpu.fake.fail("managed_allocate", 2)
    gpu.fake.fail("host_allocate", 2)
    with pytest.raises(CudaOutOfMemoryError, match=r"placement='host-direct' keeps .* decode on the CPU"):
        on_gpu(placement="host-direct", memory_limit=limit)


def test_a_resident_model_that_does_not_fit(gpu):
    gpu.start(memory=(6 << 16) + 1000)  # the graph, the small model and the words
    with pytest.raises(CudaOutOfMemoryError, match=r"with placement='resident'; 'host-direct' keeps"):
        on_gpu(placement="resident")


def test_a_second_decoder_of_a_resident_model(gpu, monkeypatch):
    """What the first one has sent counts as free for it: there is one copy."""
    seen = []
    choose = lm_placement.choose
    monkeypatch.setattr(lm_placement, "choose", lambda *given: seen.append(given[3]) or choose(*given))
    first = on_gpu()
    on_gpu(beam=3.0)
    gc.collect()
    on_gpu(language_model=LanguageModel(dict(LARGE.columns), LARGE.about))
    assert seen[1] - seen[2] == 1 << 16, "the memory of the model, in the pool's grains"
    assert first._search.engine.placement == "resident"


def test_counters_of_an_empty_batch(gpu):
    decoder = on_gpu()
    decoder.decode(BATCH)
    assert decoder.decode([]) == []
    assert (decoder.stats.lookups, decoder.stats.distinct_lookups, decoder.stats.model_bytes_read) == (0, 0, 0)


def test_pinned_memory_that_is_refused_within_a_budget(gpu):
    gpu.fake.fail("managed_allocate", 2)
    gpu.fake.fail("host_allocate", 2)
    with pytest.raises(CudaOutOfMemoryError, match=r"no room for its index .*: 512 bytes may be"):
        on_gpu(placement="host-direct", gpu_budget=512)
    gpu.fake.fail("managed_allocate", 2)
    gpu.fake.fail("host_allocate", 2)
    with pytest.warns(UserWarning, match="kept on the GPU") as caught:
        decoder = on_gpu(placement="host-direct", gpu_budget="1MB", arc_cache="1kB")
    assert caught[0].filename == __file__
    check_same(decoder.decode(BATCH), on_cpu())
    assert decoder.stats.lookup_misses < decoder.stats.distinct_lookups
    index = sum(LARGE.columns[name].nbytes for name in lm_file.INDEX)
    gpu.fake.fail("managed_allocate", 2)
    gpu.fake.fail("host_allocate", 2)
    with pytest.warns(UserWarning, match="keeps its index and requests the rest from the host, as 'host'"):
        decoder = on_gpu(placement="host-direct", gpu_budget=index + 100)
    assert decoder._search.engine.placement == "host"
    check_same(decoder.decode(BATCH), on_cpu())


def test_a_memory_limit_is_said_before_a_model_is_sent(gpu):
    limit = on_gpu().memory().graph + 140_000
    before = len([line for line in gpu.fake.journal() if line[0] == "allocate"])
    with pytest.raises(CapacityError, match="memory_limit: the graph and the language models need"):
        on_gpu(placement="resident", memory_limit=limit)
    assert len([line for line in gpu.fake.journal() if line[0] == "allocate"]) <= before + 2


@pytest.mark.parametrize(
    ("code", "budget", "last"),
    [("ptx 8.0", None, ("dense", 1)), ("ptx 8.0", 1, ("dense", 1)), ("ptx 9.0", None, ("cluster", 4))],
)
def test_code_that_is_older_than_clusters(gpu, monkeypatch, code, budget, last):
    monkeypatch.setattr(search_plan, "RESCORING_HOT_TOKENS", 4)
    monkeypatch.setattr(search_plan, "RESCORING_TEAM_TOKENS", 4)
    gpu.launch_as(search_plan.DENSE)
    gpu.compiled_for(code)
    placement = "resident" if budget is None else "host-direct"
    check_same(on_gpu(placement=placement, gpu_budget=budget).decode(BATCH), on_cpu())
    assert gpu.launched[-1] == last


@pytest.mark.parametrize("argv", [[""], ["", "--grow"]])
def test_what_runs_under_the_sanitizers(emulated_gpu, monkeypatch, capsys, argv):
    for name in ("launch_shapes", "first_room", "RESCORING_TEAM_TOKENS"):
        monkeypatch.setattr(search_plan, name, getattr(search_plan, name))  # which it changes
    monkeypatch.setattr(sys, "argv", argv)
    sanitized_rescoring.main()
    assert capsys.readouterr().out.startswith("rescored ")
    assert {("wide", 1), ("dense", 1), ("cluster", 4), ("cluster", 2)} == set(emulated_gpu.launched)
