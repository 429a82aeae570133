"""Numbers of KenLM's histories beside a GPU: they live on within bounds, and no answer depends on it."""

import numpy as np
import pytest

from arcbeam import CtcDecoder
from arcbeam.gpu.tuned import search_plan
from tests.decode import graphs
from tests.rescore import test_rescore_cuda_engine as resident
from tests.rescore.placed import kenlm
from tests.rescore.test_rescore_cuda_engine import BATCH, GRAPH, SMALL, check_same

OPTIONS = resident.OPTIONS | {"unknown_words": "unk", "graph_language_model": SMALL, "hypotheses_per_state": 3}
OTHERS = [[graphs.random_log_probs(100 * i + j, 3 + j, 12) for j in range(3)] for i in range(6)]


@pytest.fixture(scope="module")
def model():
    return kenlm()


@pytest.fixture(scope="module")
def wanted(model):
    decoder = CtcDecoder(GRAPH, device="cpu", threads=1, language_model=model, **OPTIONS)
    return [decoder.decode(batch) for batch in OTHERS]


def on_gpu(model, cache="1MB"):
    return CtcDecoder(
        GRAPH, device="cuda", threads=2, placement="cpu", language_model=model, arc_cache=cache, **OPTIONS
    )


def test_numbers_and_the_cache_live_on(gpu, model):
    decoder = on_gpu(model)
    first = decoder.decode(BATCH)
    lookups = decoder._search.engine.host_lookups
    histories, questions = lookups.histories, lookups.questions
    assert histories > 20
    check_same(decoder.decode(BATCH), first)
    assert lookups.histories == histories
    assert lookups.questions - questions < questions / 4, "the arc cache has answered"


def test_without_an_arc_cache_nothing_is_numbered_twice(gpu, model):
    decoder = on_gpu(model, cache=0)
    first = decoder.decode(BATCH)
    histories = decoder._search.engine.host_lookups.histories
    for _ in range(3):
        check_same(decoder.decode(BATCH), first)
    lookups = decoder._search.engine.host_lookups
    assert histories <= lookups.histories <= histories + 8, "but for numbers that two threads took for one history"


@pytest.mark.parametrize(("first_room", "bytes_for_all"), [(4, 0), (64, 30_000), (64, 1 << 30)])
def test_many_batches_stay_within_bounds(gpu, model, wanted, monkeypatch, first_room, bytes_for_all):
    """A server that never ends: memory is bounded by the larger of the bound and what one batch takes."""
    monkeypatch.setattr(search_plan, "REQUEST_HISTORIES", first_room)
    monkeypatch.setattr(search_plan, "REQUEST_HISTORIES_BYTES", bytes_for_all)
    decoder = on_gpu(model)
    pinned, most = [], 0
    for _ in range(2):
        for batch, want in zip(OTHERS, wanted, strict=True):
            check_same(decoder.decode(batch), want)
            pinned.append(decoder.memory().pinned)
            most = max(most, decoder._search.engine.host_lookups.histories)
    assert pinned[-1] == pinned[len(OTHERS) - 1], "nothing grows for batches that have been before"
    if bytes_for_all == 0:
        alone = []
        for batch in OTHERS:
            other = on_gpu(model)
            other.decode(batch)
            alone.append(other._search.engine.host_lookups.histories)
        assert most <= max(*alone, first_room // 2) + max(alone) + 8


def test_room_is_made_before_lanes_need_it(gpu, model, wanted, monkeypatch):
    """Between batches; and where the host has no more, numbers begin anew instead."""
    monkeypatch.setattr(search_plan, "REQUEST_HISTORIES", 128)
    decoder = on_gpu(model)
    lookups = decoder._search.engine.host_lookups
    sizes = []
    for number, (batch, want) in enumerate(zip(OTHERS, wanted, strict=True)):
        if lookups.histories > 64:
            gpu.fake.refuse("host_allocate", "managed_allocate")
            check_same(decoder.decode(batch), want)
            gpu.fake.allow()
            sizes.append(lookups.histories)
            break
        check_same(decoder.decode(batch), want)
        assert number < len(OTHERS) - 1, "more than 64 histories are met"
    assert sizes and sizes[0] <= 128


def test_how_many_are_kept():
    first, most = search_plan.REQUEST_HISTORIES, search_plan.REQUEST_HISTORIES_BYTES
    for each in (1, 100, 112, 148, 10**6):
        kept = search_plan.kept_histories(each)
        assert kept == first or kept * each <= most < 2 * kept * each
        assert np.log2(kept // first) % 1 == 0
