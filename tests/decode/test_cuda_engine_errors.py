"""The engine on a GPU when calls fail, memory ends, threads share it, or the process forks: nothing is lost or left."""

import gc
import itertools
import sys
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from arcbeam import CtcDecoder, CudaError, CudaOutOfMemoryError
from tests.cuda_host.forks import told_in_a_child
from tests.decode import graphs
from tests.decode.emulated_gpu import DeviceArray
from tests.decode.equality import same
from tests.decode.small_search import AS_SHIPPED, BATCH, GRAPH, OPTIONS, on_cpu
from tests.processes import in_threads, of_a_child


def test_out_of_memory_costs_lanes_first(gpu):
    kept = CtcDecoder(GRAPH, device="cuda", **OPTIONS)  # the graph is there already
    lanes = set()
    for nth in range(1, 18):
        decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
        gpu.fake.fail("allocate", 2, nth)
        gpu.fake.fail("allocate", 2, nth)  # the second try, too
        same(decoder.decode(BATCH), on_cpu())
        lanes.add(gpu.shapes[-1][0])
    assert lanes == {2, 5} or lanes == {2}
    same(kept.decode(BATCH), on_cpu())
    assert gpu.shapes[-1][0] == 5


def test_out_of_memory_for_good(gpu):
    kept = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    for _ in range(8):  # 5, 2 and 1 lanes, 1 with as little as can be; each tried twice
        gpu.fake.fail("allocate", 2)
    with pytest.raises(
        CudaOutOfMemoryError, match=r"CUDA_ERROR_OUT_OF_MEMORY \(2\): cannot allocate .* for the tokens of a frame"
    ):
        decoder.decode(BATCH)
    same(decoder.decode(BATCH), on_cpu())
    same(kept.decode(BATCH), on_cpu())


def test_a_small_gpu_decodes_smaller_batches(gpu):
    gpu.begin_with(AS_SHIPPED)
    gpu.start(memory=16 << 20)
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    same(decoder.decode(BATCH), on_cpu())
    assert gpu.shapes[-1][0] < 5
    with pytest.raises(CudaOutOfMemoryError, match=r"cannot allocate .* for the log-probs"):
        decoder.decode([np.zeros((400_000, 12), np.float32)])
    same(decoder.decode(BATCH[:1]), on_cpu(BATCH[:1]))


def test_every_call_of_a_decode_may_fail(gpu):
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    wanted = on_cpu(BATCH[:2])
    same(decoder.decode(BATCH[:2]), wanted)  # with memory there, every run makes the same calls
    raised = 0
    for error in gpu.fake.failures(lambda: same(decoder.decode(BATCH[:2]), wanted)):
        assert (error.name, error.code) == ("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", 803)
        raised += 1
        same(decoder.decode(BATCH[:2]), wanted)
    assert raised > 5


def test_every_call_of_making_a_decoder_may_fail(gpu):
    wanted = on_cpu(BATCH[3:4])

    def run():
        decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
        same(decoder.decode(BATCH[3:4]), wanted)
        return decoder

    errors = list(gpu.fake.failures(run))
    assert len(errors) > 40
    assert {error.code for error in errors} == {803}
    run()


def test_a_lost_device_stays_lost(gpu):
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    gpu.fake.fail("event_query", 700)
    with pytest.raises(CudaError, match="ILLEGAL_ADDRESS") as caught:
        decoder.decode(BATCH)
    assert caught.value.code == 700
    with pytest.raises(CudaError, match="cannot be used by this process any more"):
        decoder.decode(BATCH)
    with pytest.raises(CudaError, match="cannot be used by this process any more"):
        decoder.release()
    del decoder, caught
    gc.collect()
    gpu.start()  # nothing can be freed on a lost device: new books
    same(CtcDecoder(GRAPH, device="cuda", **OPTIONS).decode(BATCH[:1]), on_cpu(BATCH[:1]))


def test_control_c(gpu):
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    wanted = on_cpu()
    same(decoder.decode(BATCH), wanted)
    with gpu.interrupted(), pytest.raises(KeyboardInterrupt):
        decoder.decode(BATCH)
    same(decoder.decode(BATCH), wanted)


def test_several_threads_take_turns(gpu):
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    wanted = on_cpu()

    def work(own):
        mine = CtcDecoder(GRAPH, device="cuda", **OPTIONS) if own else decoder
        for _ in range(3):
            same(mine.decode(BATCH), wanted)
            mine.release()

    in_threads(*(partial(work, i % 2) for i in range(4)))


def test_two_hundred_decoders_leave_nothing(gpu):
    wanted = on_cpu(BATCH[:1])
    for i in range(200):
        decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
        if i % 20 == 0:
            same(decoder.decode(BATCH[:1]), wanted)
    del decoder
    gc.collect()
    assert gpu.fake.living() == 0


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_graph_decoder_and_hypotheses_go_in_any_order(gpu, order):
    graph = graphs.random_graph(5, states=50, columns=12)
    decoder = CtcDecoder(graph, device="cuda", **OPTIONS)
    things = [graph, decoder, decoder.decode(BATCH[:1])]
    del graph, decoder
    for i in order:
        things[i] = None
    del things
    gc.collect()
    assert gpu.fake.living() == 0


def test_a_child_forked_while_another_thread_decodes_is_told(gpu):
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    assert told_in_a_child(decoder, BATCH, gpu.fake, launched=lambda: len(gpu.launched))


@pytest.mark.parametrize("call", [lambda decoder: decoder.decode(BATCH[:1]), CtcDecoder.release])
def test_a_forked_child_is_told(gpu, call):
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    same(decoder.decode(BATCH[:1]), on_cpu(BATCH[:1]))

    def told():
        with pytest.raises(CudaError, match="forked"):
            call(decoder)
        return True

    assert of_a_child(told)


@pytest.mark.parametrize("wrap", [DeviceArray, np.asarray])
def test_nothing_is_decoded_while_a_graph_is_captured(gpu, monkeypatch, wrap):
    """Of torch, whose current stream this is: neither what is on the GPU nor what is on the host."""
    stream = SimpleNamespace(cuda_stream=2)
    cuda = SimpleNamespace(is_initialized=lambda: True, current_stream=lambda device: stream)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    batch, wanted = [wrap(logp) for logp in BATCH], on_cpu()
    same(decoder.decode(batch), wanted)
    gpu.fake.library.fake_capture(2)
    launched = len(gpu.launched)
    with pytest.raises(CudaError, match="a CUDA graph is being captured: decode before the capture or after it"):
        decoder.decode(batch)
    assert len(gpu.launched) == launched
    assert gpu.fake.library.fake_capturing() == 1
    gpu.fake.library.fake_end_capture()
    same(decoder.decode(batch), wanted)
