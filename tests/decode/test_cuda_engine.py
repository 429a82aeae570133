"""The engine on a GPU, host side and kernel, without one: its results are the CPU engine's bytes."""

import gc

import numpy as np
import pytest

from arcbeam import CapacityError, CtcDecoder, CudaError
from arcbeam.gpu.tuned import search_plan
from tests.decode import graphs
from tests.decode.emulated_gpu import TIGHT, DeviceArray, unreadable
from tests.decode.equality import same
from tests.decode.small_search import AS_SHIPPED, BATCH, GRAPH, OPTIONS, on_cpu


def test_the_device_and_the_work(gpu):
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    cpu = CtcDecoder(GRAPH, device="cpu", **OPTIONS)
    assert (decoder.device, cpu.device) == ("cuda:0", "cpu")
    same(decoder.decode(BATCH), cpu.decode(BATCH))
    for name in ("frames", "tokens", "leaving_arcs", "admitted"):
        assert getattr(decoder.stats, name) == getattr(cpu.stats, name) > 0
    assert (decoder.stats.expanded_tokens, decoder.stats.read_arcs, decoder.stats.candidates) == (None, None, None)
    assert gpu.shapes == [(5, 512, gpu.shapes[0][2])]


def test_auto_takes_the_gpu(gpu):
    assert CtcDecoder(GRAPH).device == "cuda:0"
    assert CtcDecoder(GRAPH, device="auto").device == "cuda:0"
    gpu.start()
    gpu.fake.library.fake_device(0, 7, 5, 1)
    with pytest.warns(UserWarning, match=r"there is a GPU that cannot be used.* compute capability 7\.5"):
        assert CtcDecoder(GRAPH, device="auto").device == "cpu"
    with pytest.raises(CudaError, match=r"compute capability 7\.5"):
        CtcDecoder(GRAPH, device="cuda")


def test_a_second_device(gpu):
    gpu.start(devices=2)
    decoder = CtcDecoder(GRAPH, device="cuda:1", **OPTIONS)
    assert decoder.device == "cuda:1"
    same(decoder.decode(BATCH), on_cpu())
    with pytest.raises(CudaError, match="no device cuda:2"):
        CtcDecoder(GRAPH, device="cuda:2")


def test_arrays_on_the_device_are_not_copied(gpu):
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    same(decoder.decode([DeviceArray(logp) for logp in BATCH]), on_cpu())
    assert decoder.memory().log_probs == 0
    batch = np.stack([graphs.random_log_probs(seed, 8, 12) for seed in range(3)])
    same(decoder.decode(DeviceArray(batch), [8, 3, 0], cuda_stream=2), on_cpu(batch, [8, 3, 0]))
    marks = [line for line in gpu.fake.journal() if line[0] in ("record", "wait")]
    at = [mark[:2] for mark in marks].index(["record", "2"])
    assert marks[at + 1][0] == "wait" and marks[at + 1][2] == marks[at][2]
    same(decoder.decode(BATCH), on_cpu())
    assert decoder.memory().log_probs > 0


def test_arrays_in_the_wrong_place(gpu):
    on_device = [DeviceArray(logp) for logp in BATCH]
    with pytest.raises(TypeError, match="expected an array"):
        CtcDecoder(GRAPH, device="cpu").decode(on_device)
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    with pytest.raises(TypeError, match=r"log_probs\[1\]: expected an array on cuda:0, got one in CPU memory"):
        decoder.decode([on_device[0], BATCH[1]])
    with pytest.raises(TypeError, match=r"log_probs\[1\]: expected an array"):
        decoder.decode([BATCH[0], on_device[1]])
    with pytest.raises(ValueError, match="cuda_stream: expected None, because log_probs"):
        decoder.decode(BATCH, cuda_stream=2)
    same(decoder.decode(BATCH), on_cpu())


def test_memory_that_kernels_cannot_read(gpu):
    """It is refused before a kernel reads there, which would cost the process its GPU."""
    gpu.start(devices=2)
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    for array, said in unreadable(gpu.fake, BATCH[2]):
        with pytest.raises(ValueError, match=rf"log_probs\[0\]: expected .*{said}"):
            decoder.decode([array])
    batch = np.stack([graphs.random_log_probs(seed, 8, 12) for seed in range(3)])
    for array, said in unreadable(gpu.fake, batch):
        with pytest.raises(ValueError, match=f"log_probs: expected .*{said}"):
            decoder.decode(array)
    launched = len(gpu.launched)
    same(decoder.decode([DeviceArray(logp) for logp in BATCH]), on_cpu())
    assert launched == 0


def test_streams_of_another_device(gpu):
    gpu.start(devices=2)
    decoder, other = (CtcDecoder(GRAPH, device=device, **OPTIONS) for device in ("cuda:0", "cuda:1"))
    batch = [DeviceArray(logp) for logp in BATCH]
    with pytest.raises(ValueError, match="cuda_stream: expected a stream of cuda:0, where the decoder is, got the"):
        decoder.decode(batch, cuda_stream=other._search.engine.stream.address)
    same(decoder.decode(batch, cuda_stream=decoder._search.engine.stream.address), on_cpu())


@pytest.mark.parametrize("wrap", [DeviceArray, np.asarray])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_bad_values_are_named(gpu, wrap, dtype):
    spoiled = [logp.astype(dtype) for logp in BATCH]
    spoiled[2][6, 3] = np.inf
    spoiled[0][1, 4:] = np.nan
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    with pytest.raises(ValueError, match="finite values or -inf, got nan in utterance 0, frame 1, column 4"):
        decoder.decode([wrap(logp) for logp in spoiled])
    with pytest.raises(ValueError, match="got inf in utterance 1, frame 6, column 3"):
        decoder.decode([wrap(logp) for logp in spoiled[1:]])
    same(decoder.decode(BATCH), on_cpu())


def test_everything_grows(gpu):
    gpu.begin_with(TIGHT)
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    same(decoder.decode(BATCH), on_cpu())
    assert len(gpu.shapes) > 3
    same(decoder.decode(BATCH[2:3]), on_cpu(BATCH[2:3]))
    before = len(gpu.shapes)
    same(decoder.decode(BATCH[2:3]), on_cpu(BATCH[2:3]))
    assert len(gpu.shapes) == before + 1, "a lane keeps its room"
    for _ in range(3):
        decoder.decode(BATCH[2:3] * 4)
    before = len(gpu.shapes)
    decoder.decode(BATCH[2:3] * 4)
    assert len(gpu.shapes) == before + 1, "all lanes have what one needed"


def test_paths_that_are_longer_than_what_comes_back_unasked(gpu):
    batch = [graphs.random_log_probs(7, 3000, 12), *BATCH] * 6
    options = {"beam": 0.25, "max_active": 2}
    same(CtcDecoder(GRAPH, device="cuda", **options).decode(batch), on_cpu(batch, **options))


@pytest.mark.parametrize("shape", [search_plan.WIDE, search_plan.DENSE, search_plan.LaunchShape("dense", 64, 4)])
def test_launch_shapes(gpu, shape):
    gpu.begin_with(search_plan.Room(spill_states=512, log_entries=4096))
    gpu.launch_as(shape)
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    same(decoder.decode(BATCH), on_cpu())
    ((blocks, threads, shared),) = gpu.shapes
    assert (blocks, threads) == (5, shape.threads)
    most = search_plan.SHARED_BYTES // shape.blocks_per_multiprocessor - 1024
    assert most - search_plan.SHARED_STEP * 160 < shared <= most


def test_which_shapes():
    few, many = search_plan.FEW_TOKENS, search_plan.FEW_TOKENS + 1
    for tokens, crowd in ((search_plan.FEWER_TOKENS, 528), (few, 792)):
        assert search_plan.launch_shapes(crowd, 132, tokens)[0] == search_plan.CROWDED
        assert search_plan.launch_shapes(crowd - 1, 132, tokens) == (search_plan.DENSE, search_plan.WIDE)
    for utterances, tokens in ((132, few), (528, None), (528, many)):
        assert search_plan.launch_shapes(utterances, 132, tokens) == (search_plan.WIDE,)


def test_small_blocks_where_frames_have_few_tokens(planned_gpu):
    """Which is known from the second batch on."""
    decoder = CtcDecoder(GRAPH, device="cuda", beam=1.0)
    batch = [BATCH[2][:3]] * 133
    for _ in range(2):
        same(decoder.decode(batch), on_cpu(batch, beam=1.0))
    assert planned_gpu.launched == [("wide", 1), ("dense", 1)]


def test_hot_utterances_go_on_in_clusters(gpu, monkeypatch):
    monkeypatch.setattr(search_plan, "HOT_TOKENS", 4)
    monkeypatch.setattr(search_plan, "HOT_FRAMES", 0)
    monkeypatch.setattr(search_plan, "TEAM_TOKENS", 4)
    gpu.launch_as(search_plan.DENSE)
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    for _ in range(2):
        same(decoder.decode(BATCH), on_cpu())
    assert ("dense", 1) in gpu.launched
    assert ("cluster", 8) in gpu.launched


def test_a_device_without_clusters(planned_gpu, monkeypatch):
    monkeypatch.setattr(search_plan, "HOT_TOKENS", 4)
    monkeypatch.setattr(search_plan, "HOT_FRAMES", 0)
    planned_gpu.start()
    planned_gpu.fake.library.fake_without_clusters(0)
    same(CtcDecoder(GRAPH, device="cuda", **OPTIONS).decode(BATCH), on_cpu())
    assert planned_gpu.launched == [("wide", 1)]


@pytest.mark.parametrize(
    ("code", "last"),
    [(["ptx 8.0"], ("dense", 1)), (["arch 8.0", "ptx 8.0"], ("dense", 1)), (["ptx 9.0"], ("cluster", 8))],
)
def test_code_that_is_older_than_clusters(gpu, monkeypatch, code, last):
    """Compiled by the driver for the device, it knows no more than its PTX did: that a cluster is one block."""
    monkeypatch.setattr(search_plan, "HOT_TOKENS", 4)
    monkeypatch.setattr(search_plan, "HOT_FRAMES", 0)
    monkeypatch.setattr(search_plan, "TEAM_TOKENS", 4)
    gpu.launch_as(search_plan.DENSE)
    gpu.compiled_for(*code)
    same(CtcDecoder(GRAPH, device="cuda", **OPTIONS).decode(BATCH), on_cpu())
    assert gpu.launched[-1] == last


def test_more_columns_than_shared_memory_holds(gpu):
    graph = graphs.Graph.from_arcs([(0, 0, 1, 0, 0.0)], start=0, finals={0: 0.0})
    gpu.begin_with(AS_SHIPPED)
    decoder = CtcDecoder(graph, device="cuda")
    with pytest.raises(ValueError, match=r"expected at most (\d+) columns, .* shared memory of cuda:0") as caught:
        decoder.decode([np.zeros((1, 100_000), np.float32)])
    most = int(str(caught.value).split("at most ")[1].split()[0])
    assert decoder.decode([np.zeros((1, most), np.float32)])[0].reached_final
    with pytest.raises(ValueError, match="expected at most"):
        decoder.decode([np.zeros((1, most + 1), np.float32)])


def test_order_and_split_of_a_batch(gpu):
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    wanted = on_cpu()
    same(decoder.decode(BATCH[::-1])[::-1], wanted)
    same(decoder.decode(BATCH[:2]) + decoder.decode(BATCH[2:]), wanted)
    for _ in range(3):
        same(decoder.decode(BATCH), wanted)


def test_decoders_of_one_graph_share_it(gpu):
    one, two = (CtcDecoder(GRAPH, device="cuda", beam=beam) for beam in (5.0, 3.0))
    before = gpu.fake.living("memory")
    same(two.decode(BATCH), on_cpu(beam=3.0))
    del two
    gc.collect()
    assert gpu.fake.living("memory") == before == 4
    same(one.decode(BATCH), on_cpu(beam=5.0))


def test_memory_by_purpose(gpu):
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    start = decoder.memory()
    assert start.graph > GRAPH.targets.nbytes
    assert (start.lanes, start.token_log, start.device_bytes) == (0, 0, start.graph)
    decoder.decode(BATCH)
    after = decoder.memory()
    assert min(after.lanes, after.token_log, after.paths, after.log_probs, after.batch, after.pinned) > 0
    assert CtcDecoder(GRAPH, device="cpu").memory().device_bytes > GRAPH.targets.nbytes


def test_a_memory_limit_costs_lanes_first(gpu):
    free = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    free.decode(BATCH)
    needed = free.memory().device_bytes
    for limit in (needed, needed * 3 // 4, needed // 2):
        gpu.launches.clear()
        decoder = CtcDecoder(GRAPH, device="cuda", memory_limit=limit, **OPTIONS)
        same(decoder.decode(BATCH), on_cpu())
        assert decoder.memory().device_bytes <= limit
    assert gpu.shapes[-1][0] < 5
    with pytest.raises(CapacityError, match=r"memory_limit: the graph alone needs [\d,]+ bytes on cuda:0"):
        CtcDecoder(GRAPH, device="cuda", memory_limit=1000)


def test_a_memory_limit_that_is_too_tight(gpu):
    graph_bytes = CtcDecoder(GRAPH, device="cuda").memory().graph
    decoder = CtcDecoder(GRAPH, device="cuda", memory_limit=graph_bytes + (1 << 17), **OPTIONS)
    for _ in range(2):
        with pytest.raises(CapacityError, match=r"memory_limit: cannot allocate [\d,]+ bytes for .* on cuda:0"):
            decoder.decode(BATCH)
