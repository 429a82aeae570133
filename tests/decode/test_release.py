"""Memory that grows with batches is given back by `release`, and grows again."""

import gc

from arcbeam import CtcDecoder
from arcbeam.gpu import _cuda
from tests.decode.emulated_gpu import TIGHT, DeviceArray
from tests.decode.equality import same
from tests.decode.small_search import BATCH, GRAPH, OPTIONS, on_cpu
from tests.processes import NewThreads


def test_a_gpu_has_its_memory_back(gpu):
    gpu.begin_with(TIGHT)
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    before, living = decoder.memory(), gpu.fake.living("memory")
    free = _cuda.context_of(0).memory()[0]
    for batch in (BATCH, [DeviceArray(logp) for logp in BATCH], BATCH[:1]):
        same(decoder.decode(batch), on_cpu(BATCH[: len(batch)]))
        assert decoder.memory().device_bytes > before.device_bytes
        assert decoder.memory().pinned > 0
        assert _cuda.context_of(0).memory()[0] < free
        decoder.release()
        assert decoder.memory() == before
        assert (before.lanes, before.token_log, before.paths, before.log_probs, before.batch, before.pinned) == (0,) * 6
        assert gpu.fake.living("memory") == living, "the graph alone"
        assert gpu.fake.living("pinned") == 0
        assert _cuda.context_of(0).memory()[0] == free, "the pool keeps nothing either"


def test_before_the_first_batch_and_twice(gpu):
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    decoder.release()
    same(decoder.decode(BATCH), on_cpu())
    decoder.release()
    decoder.release()
    same(decoder.decode(BATCH), on_cpu())


def test_other_decoders_of_the_graph_go_on(gpu):
    one, other = (CtcDecoder(GRAPH, device="cuda", **OPTIONS) for _ in range(2))
    same(one.decode(BATCH), on_cpu())
    same(other.decode(BATCH), on_cpu())
    kept = other.memory()
    one.release()
    assert other.memory() == kept
    same(other.decode(BATCH), on_cpu())


def test_what_a_decode_found_stays(device):
    decoder = CtcDecoder(GRAPH, device=device, **OPTIONS)
    found = decoder.decode(BATCH)
    decoder.release()
    gc.collect()
    same(found, on_cpu())


def test_a_memory_limit_counts_what_is_left(gpu):
    free = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    free.decode(BATCH)
    limit = free.memory().device_bytes
    decoder = CtcDecoder(GRAPH, device="cuda", memory_limit=limit, **OPTIONS)
    for _ in range(4):
        same(decoder.decode(BATCH), on_cpu())
        decoder.release()


def test_a_cpu_ends_its_threads():
    started = NewThreads()
    decoder = CtcDecoder(GRAPH, device="cpu", threads=3, **OPTIONS)
    for _ in range(3):
        same(decoder.decode(BATCH), on_cpu())
        gc.collect()
        assert started.become(3)
        decoder.release()
        assert started.become(0)
        decoder.release()
    assert decoder.memory() == CtcDecoder(GRAPH, device="cpu", **OPTIONS).memory()


def test_a_driver_that_does_not_trim(gpu):
    """What is freed is free for the next batch all the same."""
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    same(decoder.decode(BATCH), on_cpu())
    gpu.fake.fail("pool_trim", 803)
    decoder.release()
    same(decoder.decode(BATCH), on_cpu())
