"""Real speech and workloads on a real GPU: the CPU engine's bytes on every set, at three beams, on real graphs.

Sets and graphs are those of the benchmarks (`make gpu-graphs` builds the graphs). ARCBEAM_SPEECH_GRAPHS names the
graphs to decode with, ``char-large`` for the one of 12 million states.
"""

import os
import threading

import numpy as np
import pytest

from arcbeam import CtcDecoder
from arcbeam.gpu.devices import why_no_cuda
from benchmarks.adapters import gpu
from benchmarks.data import datasets, graphs
from tests.decode.equality import same

GRAPHS = os.environ.get("ARCBEAM_SPEECH_GRAPHS", "char-3gram,spm512-3gram,spm1024-3gram,spm512-5gram").split(",")
SEARCHES = [
    {"beam": 17.0, "max_active": 10_000},
    {"beam": 12.0, "max_active": 5_000},
    {"beam": 8.0, "max_active": 200, "acoustic_scale": 1.5, "blank_penalty": 0.25},
]
HOUR = 3600.0
MOST_LOG_BYTES = 32 << 20  # uncollected it would be hundreds of megabytes
COUNTED = ("frames", "tokens", "leaving_arcs", "admitted")


def sets_of(graph):
    """Names of the sets that have the graph's columns."""
    return datasets.REAL if graph.startswith("char") else (f"workload-{graph.removeprefix('spm').split('-')[0]}",)


@pytest.fixture(scope="module", autouse=True)
def needs_kernels(gpu):
    reason = why_no_cuda(gpu)
    if reason:
        pytest.skip(f"no kernels for this GPU: {reason}")


def graph_named(name):
    try:
        files = graphs.files(name)
    except datasets.DataMissing as error:
        pytest.skip(str(error))
    if not files.arcbeam.exists():
        pytest.skip(f"{files.arcbeam} is not there: make gpu-graphs builds it")
    return files.graph


def set_named(name):
    try:
        return datasets.load(name)
    except (datasets.DataMissing, FileNotFoundError) as error:
        pytest.skip(str(error))


def both(graph, **options):
    """The engine on the GPU, and its twin."""
    return (CtcDecoder(graph, device=device, frame_shift=0.02, **options) for device in ("cuda", "cpu"))


def agree(on_gpu, on_cpu, arrays, utterances):
    same(on_gpu.decode(arrays), on_cpu.decode(utterances))
    for name in COUNTED:
        assert getattr(on_gpu.stats, name) == getattr(on_cpu.stats, name)


@pytest.mark.parametrize("search", SEARCHES, ids=str)
@pytest.mark.parametrize(("graph", "name"), [(graph, name) for graph in GRAPHS for name in sets_of(graph)])
def test_every_set(graph, name, search):
    utterances = [np.ascontiguousarray(u) for u in set_named(name).utterances]
    on_gpu, on_cpu = both(graph_named(graph), **search)
    agree(on_gpu, on_cpu, gpu.send(utterances), utterances)


@pytest.mark.parametrize("where", ["device", "host"])
@pytest.mark.parametrize("search", SEARCHES[:2], ids=str)
@pytest.mark.parametrize("graph", GRAPHS[:2])
def test_an_hour_in_one_utterance(graph, search, where):
    dataset = set_named(sets_of(graph)[-1])
    frames = int(HOUR / dataset.frame_shift)
    turns = -(-frames // len(dataset.log_probs))
    hour = np.ascontiguousarray(np.tile(dataset.log_probs, (turns, 1))[:frames])
    on_gpu, on_cpu = both(graph_named(graph), **search)
    agree(on_gpu, on_cpu, gpu.send([hour], np.float16) if where == "device" else [hour], [hour])
    assert on_gpu.memory().token_log <= MOST_LOG_BYTES
    assert on_gpu.memory().device_bytes < on_gpu.memory().graph + (1 << 30)


@pytest.fixture(scope="module")
def speech():
    """Graph and utterances of the first graph, and what the twin says to them."""
    graph, sets = graph_named(GRAPHS[0]), sets_of(GRAPHS[0])
    utterances = [np.ascontiguousarray(u, np.float32) for u in set_named(sets[1 % len(sets)]).utterances]
    return graph, utterances, CtcDecoder(graph, device="cpu", frame_shift=0.02, **SEARCHES[0]).decode(utterances)


@pytest.fixture
def decoder(speech):
    return CtcDecoder(speech[0], device="cuda", frame_shift=0.02, **SEARCHES[0])


def test_order_split_padding_and_place(speech, decoder):
    _, utterances, wanted = speech
    arrays = gpu.send(utterances)
    same(decoder.decode(arrays[::-1])[::-1], wanted)
    order = np.random.default_rng(0).permutation(len(arrays))
    found = decoder.decode([arrays[i] for i in order])
    same([found[i] for i in np.argsort(order)], wanted)
    same([h for i in range(0, len(arrays), 9) for h in decoder.decode(arrays[i : i + 9])], wanted)
    same(decoder.decode(utterances), wanted)
    padded = np.full((len(utterances), max(map(len, utterances)), utterances[0].shape[1]), np.nan, np.float32)
    for row, logp in zip(padded, utterances, strict=True):
        row[: len(logp)] = logp  # frames beyond a length are never read
    lengths = [len(logp) for logp in utterances]
    same(decoder.decode(padded, lengths), wanted)
    flat = gpu.send([padded.reshape(-1, padded.shape[2])])[0]
    flat.__cuda_array_interface__ |= {"shape": padded.shape}
    same(decoder.decode(flat, lengths), wanted)


def test_twenty_runs(speech, decoder):
    arrays = gpu.send(speech[1])
    for _ in range(20):
        same(decoder.decode(arrays), speech[2])


def test_float16_equals_its_float32_copy(speech, decoder):
    graph, utterances, _ = speech
    half = [logp.astype(np.float16) for logp in utterances]
    wanted = CtcDecoder(graph, device="cpu", frame_shift=0.02, **SEARCHES[0]).decode(
        [logp.astype(np.float32) for logp in half]
    )
    for arrays in (gpu.send(half, np.float16), gpu.send(half, np.float32), half):
        same(decoder.decode(arrays), wanted)


def torch_arrays(utterances):
    torch = pytest.importorskip("torch")
    return [torch.from_numpy(logp).cuda() for logp in utterances]


def cupy_arrays(utterances):
    cupy = pytest.importorskip("cupy")
    return [cupy.asarray(logp) for logp in utterances]


class InterfaceOnly:
    """An array that has nothing but ``__cuda_array_interface__``, with its stream."""

    def __init__(self, array, stream):
        self.array = array
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, "stream": stream}


@pytest.mark.parametrize("make", [torch_arrays, cupy_arrays])
def test_arrays_of_others(speech, decoder, make):
    _, utterances, wanted = speech
    arrays = make(utterances)
    same(decoder.decode(arrays), wanted)
    same(decoder.decode([InterfaceOnly(array, 1) for array in arrays]), wanted)  # 1: the legacy default stream


def test_a_stream_of_cupy_that_is_busy(speech, decoder):
    cupy = pytest.importorskip("cupy")
    _, utterances, wanted = speech
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        busy = cupy.ones((4096, 4096), cupy.float32)
        for _ in range(30):
            busy = busy @ busy * cupy.float32(1e-4)
        arrays = [cupy.asarray(logp) + busy[0, 0] * cupy.float32(0) for logp in utterances]
        found = decoder.decode(arrays)
    same(found, wanted)
    same(decoder.decode(arrays, cuda_stream=stream), wanted)


def test_decoders_of_several_threads(speech):
    """Each thread has a decoder of its own, with another beam; two of them share one graph on the device with all."""
    graph, utterances, _ = speech
    wanted = [CtcDecoder(graph, device="cpu", frame_shift=0.02, **search).decode(utterances) for search in SEARCHES]
    errors = []

    def work(i):
        try:
            decoder = CtcDecoder(graph, device="cuda", frame_shift=0.02, **SEARCHES[i % 3])
            arrays = gpu.send(utterances) if i % 2 else utterances
            for _ in range(3):
                same(decoder.decode(arrays), wanted[i % 3])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_a_memory_limit(speech):
    graph, utterances, wanted = speech
    free = CtcDecoder(graph, device="cuda", frame_shift=0.02, **SEARCHES[0])
    same(free.decode(utterances), wanted)
    memory = free.memory()
    beside = memory.device_bytes - memory.graph
    shares = (1, 2, 8) if len(utterances) >= 100 else (1, 2)  # a lane at least must fit
    for limit in (memory.graph + beside // share for share in shares):
        decoder = CtcDecoder(graph, device="cuda", frame_shift=0.02, memory_limit=limit, **SEARCHES[0])
        same(decoder.decode(utterances), wanted)
        assert decoder.memory().device_bytes <= limit
