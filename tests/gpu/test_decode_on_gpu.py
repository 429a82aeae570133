"""The whole engine on a real GPU: the CPU engine's bytes, whatever the batch, its order, its place or its type.

ARCBEAM_GPU_GRAPHS names a folder of real graphs (``*.arcbeam``) and, if there are any, of log-prob sets (``*.npz``
with ``log_probs`` [frames, columns] and ``lengths`` [utterances]). The demo's log-probs and these are decoded with
every graph that they fit.
"""

import gc
import os
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from arcbeam import CapacityError, CtcDecoder, Graph
from arcbeam.gpu import _cuda
from arcbeam.gpu._launch import load
from arcbeam.gpu.kernel_images import build_record
from arcbeam.gpu.tuned import search_plan
from tests.decode.equality import same
from tests.decode.random_graphs import random_graph, random_log_probs
from tests.gpu.sanitized import TIGHT
from tests.processes import in_threads

SEARCHES = [
    {"beam": 17.0, "max_active": 10_000},
    {"beam": 12.0, "max_active": 5_000},
    {"beam": 8.0, "max_active": 200},
    {"beam": 8.0, "max_active": None, "acoustic_scale": 0.5, "blank_penalty": 0.5},
    {"beam": 30.0, "max_active": 50},
]
REAL = sorted(Path(os.environ.get("ARCBEAM_GPU_GRAPHS", "no such folder")).glob("*.arcbeam"))


@pytest.fixture(scope="module")
def graph():
    return random_graph(1)


@pytest.fixture(scope="module")
def batch():
    return [random_log_probs(seed, 1 + 37 * seed % 200) for seed in range(40)] + [random_log_probs(0, 1)[:0]]


def on_cpu(graph, batch, **options):
    return CtcDecoder(graph, device="cpu", **options).decode(batch)


def on_gpu(graph, batch, **options):
    return CtcDecoder(graph, device="cuda", **options).decode(batch)


@pytest.fixture(scope="module")
def wanted(graph, batch):
    return on_cpu(graph, batch, **SEARCHES[0])


@pytest.mark.parametrize("search", SEARCHES, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_random_graphs(seed, search):
    columns = (32, 29, 513, 5)[seed]
    graph = random_graph(seed, states=(2000, 50_000, 5000, 100)[seed], columns=columns)
    batch = [random_log_probs(i, 1 + 53 * i % 120, columns) for i in range(24)]
    gpu, cpu = (CtcDecoder(graph, device=device, **search) for device in ("cuda", "cpu"))
    same(gpu.decode(batch), cpu.decode(batch))
    for name in ("frames", "tokens", "leaving_arcs", "admitted"):
        assert getattr(gpu.stats, name) == getattr(cpu.stats, name)


@pytest.mark.parametrize("size", [1, 2, 131, 133, 600])
def test_sizes_of_batches(graph, size):
    batch = [random_log_probs(seed, 1 + seed % 17) for seed in range(size)]
    same(on_gpu(graph, batch, **SEARCHES[1]), on_cpu(graph, batch, **SEARCHES[1]))


@pytest.mark.parametrize("threads", [32, 64, 256, 512])
@pytest.mark.parametrize("blocks", [1, 2])
def test_shapes_of_launches(graph, batch, wanted, monkeypatch, threads, blocks):
    shape = search_plan.LaunchShape("wide" if threads > 256 else "dense", threads, blocks)
    monkeypatch.setattr(search_plan, "launch_shapes", lambda *_: (shape,))
    same(on_gpu(graph, batch, **SEARCHES[0]), wanted)


@pytest.mark.parametrize("shape", [search_plan.CLUSTER._replace(cluster=blocks) for blocks in (8, 4, 2)], ids=repr)
@pytest.mark.parametrize("team_tokens", [1, 64, 1 << 30])
def test_clusters(graph, batch, wanted, monkeypatch, shape, team_tokens):
    monkeypatch.setattr(search_plan, "launch_shapes", lambda *_: (shape, search_plan.WIDE))
    monkeypatch.setattr(search_plan, "TEAM_TOKENS", team_tokens)
    decoder = CtcDecoder(graph, device="cuda", **SEARCHES[0])
    for first in range(0, len(batch), 8):  # as few as clusters are for
        same(decoder.decode(batch[first : first + 8]), wanted[first : first + 8])


@pytest.mark.parametrize("name", ["search", "rescore", "bucketed"])
def test_clusters_are_those_of_the_code(gpu, name):
    """Also of a build for older devices, whose PTX the driver has compiled for this one."""
    record, device = build_record(), _cuda.device_properties(gpu)
    major, minor = device["compute_capability"]
    built = [int(re.sub(r"\D", "", capability)) for capability in record.architectures]
    machine = [version for version in built if version // 10 == major and version <= 10 * major + minor]
    known = max(machine) if machine else int(re.sub(r"\D", "", record.ptx))
    function = load(_cuda.context_of(gpu), name).function(f"arcbeam_{name}_cluster")
    assert function.architecture == known
    assert (function.clusters(2, 512) > 0) == (known >= 90)


def test_hot_utterances_go_on_in_clusters(graph, batch, wanted, monkeypatch):
    monkeypatch.setattr(search_plan, "launch_shapes", lambda *_: (search_plan.DENSE,))
    monkeypatch.setattr(search_plan, "hot_tokens", lambda *_: 1)
    monkeypatch.setattr(search_plan, "HOT_FRAMES", 0)
    monkeypatch.setattr(search_plan, "TEAM_TOKENS", 1)
    decoder = CtcDecoder(graph, device="cuda", **SEARCHES[0])
    for _ in range(5):
        same(decoder.decode(batch), wanted)


def test_order_and_split(graph, batch, wanted):
    decoder = CtcDecoder(graph, device="cuda", **SEARCHES[0])
    same(decoder.decode(batch[::-1])[::-1], wanted)
    same([found for i in range(0, len(batch), 7) for found in decoder.decode(batch[i : i + 7])], wanted)
    padded = np.zeros((len(batch), 201, 32), np.float32)
    for row, logp in zip(padded, batch, strict=True):
        row[: len(logp)] = logp
    same(decoder.decode(padded, [len(logp) for logp in batch]), wanted)


def test_everything_grows(graph, batch, wanted, monkeypatch):
    monkeypatch.setattr(search_plan, "first_room", lambda max_active: TIGHT)
    decoder = CtcDecoder(graph, device="cuda", **SEARCHES[0])
    for _ in range(3):
        same(decoder.decode(batch), wanted)


def test_memory_limits(graph, batch, wanted):
    free = CtcDecoder(graph, device="cuda", **SEARCHES[0])
    free.decode(batch)
    needed = free.memory().device_bytes
    for limit in (needed, needed // 2, needed // 8):
        decoder = CtcDecoder(graph, device="cuda", memory_limit=limit, **SEARCHES[0])
        same(decoder.decode(batch), wanted)
        assert decoder.memory().device_bytes <= limit
    with pytest.raises(CapacityError, match="memory_limit"):
        CtcDecoder(graph, device="cuda", memory_limit=1000)


def producers():
    def torch_arrays(batch, half):
        torch = pytest.importorskip("torch")
        return [torch.from_numpy(logp).cuda().to(torch.float16 if half else torch.float32) for logp in batch]

    def cupy_arrays(batch, half):
        cupy = pytest.importorskip("cupy")
        return [cupy.asarray(logp).astype(cupy.float16 if half else cupy.float32) for logp in batch]

    def jax_arrays(batch, half):
        jax = pytest.importorskip("jax")
        if not any(device.platform == "gpu" for device in jax.devices()):
            pytest.skip("this jax has no GPU")
        return [jax.numpy.asarray(logp, dtype="float16" if half else "float32") for logp in batch]

    def torch_on_the_host(batch, half):
        torch = pytest.importorskip("torch")
        return [torch.from_numpy(logp).to(torch.float16 if half else torch.float32) for logp in batch]

    return {"torch": torch_arrays, "cupy": cupy_arrays, "jax": jax_arrays, "torch on the host": torch_on_the_host}


@pytest.mark.parametrize("half", [False, True], ids=["float32", "float16"])
@pytest.mark.parametrize("library", producers())
def test_arrays_of_others(graph, batch, library, half):
    arrays = producers()[library](batch, half)
    values = [logp.astype(np.float16).astype(np.float32) if half else logp for logp in batch]
    decoder = CtcDecoder(graph, device="cuda", **SEARCHES[1])
    expected = on_cpu(graph, values, **SEARCHES[1])
    same(decoder.decode(arrays), expected)
    same(decoder.decode([value.astype(np.float16) for value in values] if half else values), expected)


def exchanging(monkeypatch):
    """torch, whose tensors do not export themselves in Python, because they have DLPack's C exchange."""
    torch = pytest.importorskip("torch")
    if "__dlpack_c_exchange_api__" not in vars(torch.Tensor):
        pytest.skip("torch has no exchange before 2.10")

    def refuse(tensor, **options):
        raise AssertionError("requested in Python")

    monkeypatch.setattr(torch.Tensor, "__dlpack__", refuse)
    return torch


@pytest.mark.parametrize("place", ["cuda", "cpu", "pinned"])
def test_lists_of_torch_are_taken_without_its_python(graph, batch, monkeypatch, place):
    torch = exchanging(monkeypatch)
    decoder = CtcDecoder(graph, device="cuda", **SEARCHES[1])
    expected = on_cpu(graph, batch, **SEARCHES[1])
    tensors = [torch.from_numpy(logp) for logp in batch]
    tensors = [t.pin_memory() if place == "pinned" else t.to(place) for t in tensors]
    same(decoder.decode(tensors), expected)
    same(decoder.decode([t.requires_grad_() for t in tensors]), expected)
    padded = [torch.cat([t, t], 1)[:, : t.shape[1]] for t in tensors]
    same(decoder.decode(padded), expected)
    same(decoder.decode([t.clone() for t in tensors for _ in range(100)])[::100], expected)


@pytest.mark.parametrize("as_list", [False, True])
def test_a_busy_stream_of_torch(graph, monkeypatch, as_list):
    torch = exchanging(monkeypatch) if as_list else pytest.importorskip("torch")
    decoder = CtcDecoder(graph, device="cuda", **SEARCHES[1])
    values = np.stack([random_log_probs(seed, 50) for seed in range(8)])
    expected = on_cpu(graph, values, **SEARCHES[1])
    side = torch.cuda.Stream()
    for stream in (None, side):
        with torch.cuda.stream(side):
            busy = torch.ones(4096, 4096, device="cuda")
            for _ in range(50):
                busy = busy @ busy * 1e-4
            logp = torch.from_numpy(values).cuda(non_blocking=True) + busy[0, 0] * 0
            logp = list(logp) if as_list else logp
            if stream is None:
                found = decoder.decode(logp)
        if stream is not None:
            found = decoder.decode(logp, cuda_stream=stream)
        same(found, expected)


def test_bad_values_of_device_arrays(graph):
    torch = pytest.importorskip("torch")
    decoder = CtcDecoder(graph, device="cuda", **SEARCHES[1])
    logp = torch.from_numpy(np.stack([random_log_probs(seed, 50) for seed in range(8)])).cuda()
    expected = on_cpu(graph, logp.cpu().numpy(), **SEARCHES[1])
    spoiled = logp.clone()
    spoiled[3, 40, 7] = float("inf")
    spoiled[5, 2, 1] = float("nan")
    for given in (spoiled, list(spoiled)):
        with pytest.raises(ValueError, match="got inf in utterance 3, frame 40, column 7"):
            decoder.decode(given)
    with pytest.raises(TypeError, match="expected an array"):
        CtcDecoder(graph, device="cpu").decode(logp)
    same(decoder.decode(logp), expected)


def test_several_threads_and_decoders(graph, batch, wanted):
    shared = CtcDecoder(graph, device="cuda", **SEARCHES[0])

    def work(own):
        decoder = CtcDecoder(graph, device="cuda", **SEARCHES[0]) if own else shared
        for _ in range(3):
            same(decoder.decode(batch), wanted)

    in_threads(*(partial(work, i % 2) for i in range(4)))


def test_two_hundred_decoders_leave_no_memory(graph, batch):
    """Other processes may take the device's memory meanwhile, but a leak shows every time."""
    kept = CtcDecoder(graph, device="cuda", **SEARCHES[1])
    kept.decode(batch)
    context = _cuda.context_of(0)

    def free_after(decoders):
        for _ in range(decoders):
            CtcDecoder(graph, device="cuda", **SEARCHES[1]).decode(batch[:2])
        gc.collect()
        return context.memory()[0]

    free = [free_after(10)]
    while len(free) < 4:
        free.append(free_after(190))
        if free[-1] > free[-2] - (64 << 20):
            return
    pytest.fail(f"190 decoders have left memory behind three times: free were {free} bytes")


def log_prob_sets(demo_data):
    folder = Path(os.environ["ARCBEAM_GPU_GRAPHS"])
    for path in (demo_data / "log_probs.npz", *sorted(folder.glob("*.npz"))):
        with np.load(path) as data:
            ends = np.cumsum(data["lengths"])
            yield path.stem, np.split(data["log_probs"][: ends[-1]], ends[:-1])


@pytest.mark.skipif(not REAL, reason="ARCBEAM_GPU_GRAPHS names no folder of *.arcbeam graphs")
@pytest.mark.parametrize("search", SEARCHES[:3], ids=str)
@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_real_speech(path, search, demo_data):
    graph = Graph.load(path)
    gpu, cpu = (CtcDecoder(graph, device=device, acoustic_scale=1.0, **search) for device in ("cuda", "cpu"))
    decoded = 0
    for _, batch in log_prob_sets(demo_data):
        if batch[0].shape[1] == graph.num_columns:
            same(gpu.decode(batch), cpu.decode(batch))
            decoded += len(batch)
    if decoded == 0:
        pytest.skip(f"no log-probs of {graph.num_columns} columns")
