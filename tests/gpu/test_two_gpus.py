"""Two decoders on two GPUs of one process: the CPU engine's bytes from both, in turn and at the same time."""

import gc
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

from arcbeam import CtcDecoder, Graph, TransducerDecoder
from arcbeam.gpu import _cuda
from arcbeam.gpu.devices import why_no_cuda
from tests.decode.equality import same
from tests.decode.random_graphs import random_graph, random_log_probs
from tests.gpu.test_driver_on_gpu import InterfaceOnly
from tests.gpu.test_rescoring_on_gpu import made
from tests.processes import in_threads
from tests.transducer.equality import same as same_transcripts
from tests.transducer.networks import random_arrays, random_frames

SEARCH = {"beam": 17.0, "max_active": 10_000}
BOTH = ("cuda:0", "cuda:1")


@pytest.fixture(scope="module", autouse=True)
def needs_two():
    if _cuda.device_count() < 2:
        pytest.skip("one device only")
    reason = why_no_cuda(1)
    if reason:
        pytest.skip(f"no kernels for GPU 1: {reason}")


@pytest.fixture(scope="module")
def graph():
    return random_graph(1)


@pytest.fixture(scope="module")
def batch():
    return [random_log_probs(seed, 1 + 37 * seed % 200) for seed in range(40)]


@pytest.fixture(scope="module")
def wanted(graph, batch):
    return CtcDecoder(graph, device="cpu", **SEARCH).decode(batch)


def test_one_after_the_other(graph, batch, wanted):
    decoders = [CtcDecoder(graph, device=device, **SEARCH) for device in BOTH]
    for decoder in decoders * 3:
        same(decoder.decode(batch), wanted)


def test_at_the_same_time(graph, batch, wanted):
    decoders = [CtcDecoder(graph, device=device, **SEARCH) for device in BOTH]

    def work(decoder):
        for _ in range(5):
            same(decoder.decode(batch), wanted)

    in_threads(*(partial(work, decoder) for decoder in decoders for _ in range(2)))


def test_one_goes_and_the_other_stays(graph, batch, wanted):
    for gone, kept in (BOTH, BOTH[::-1]):
        decoders = {device: CtcDecoder(graph, device=device, **SEARCH) for device in BOTH}
        for decoder in decoders.values():
            same(decoder.decode(batch), wanted)
        del decoder, decoders[gone]
        gc.collect()
        same(decoders[kept].decode(batch), wanted)


def test_arrays_of_torch_on_either(graph, batch, wanted):
    torch = pytest.importorskip("torch")
    decoders = [CtcDecoder(graph, device=device, **SEARCH) for device in BOTH]
    for i, decoder in enumerate(decoders):
        mine, other = ([torch.from_numpy(logp).cuda(device) for logp in batch] for device in (i, 1 - i))
        same(decoder.decode(mine), wanted)
        with pytest.raises(TypeError, match=f"expected an array on cuda:{i}.*got one on cuda:{1 - i}"):
            decoder.decode(other)
        with pytest.raises(ValueError, match=f"expected memory of cuda:{i}, .*got an address on cuda:{1 - i}"):
            decoder.decode([InterfaceOnly(logp) for logp in other])
        same(decoder.decode(mine), wanted)
        assert torch.cuda.current_device() == 0


def test_rescoring_on_either(batch):
    graph, models = made(3, 2000, 32)
    expected = CtcDecoder(graph, device="cpu", **models, **SEARCH).decode(batch)
    for place in ("resident", "host-direct"):
        for decoder in [CtcDecoder(graph, device=device, placement=place, **models, **SEARCH) for device in BOTH]:
            same(decoder.decode(batch), expected)


def test_transducers_on_either():
    arrays = random_arrays(5, tokens=300, size=50, units=130, joint=97, features=71, layers=1, blank_bias=3.0)
    frames = [random_frames(seed, int(n), 71) for seed, n in enumerate(np.random.default_rng(2).integers(3, 90, 20))]
    expected = TransducerDecoder.from_arrays(arrays, 0, device="cpu").decode(frames)
    for decoder in [TransducerDecoder.from_arrays(arrays, 0, device=device) for device in BOTH]:
        same_transcripts(decoder.decode(frames), expected)


def test_a_job_on_all_gpus(demo_data, tmp_path):
    """The command spreads its utterances over both, and writes the bytes of the CPU."""
    for package in ("typer", "rich"):
        pytest.importorskip(package, reason=f"{package} is not installed: .[cli]")
    Graph.greedy(demo_data / "tokens.txt").save(tmp_path / "graph.arcbeam")
    arguments = ["decode", "graph.arcbeam", str(demo_data / "log_probs.npz"), "-f", "json", "--nbest", "3"]
    for device, batch_size in (("cpu", 256), ("cuda:all", 256), ("cuda:all", 2)):
        output = f"{device.replace(':', '-')}-{batch_size}.jsonl"
        done = subprocess.run(
            [sys.executable, "-m", "arcbeam.cli", *arguments, "--device", device, "--batch-size", str(batch_size), "-o",
             output],
            cwd=tmp_path, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert device == "cpu" or "on cuda:0 and cuda:1" in done.stderr
        assert (tmp_path / output).read_bytes() == (tmp_path / "cpu-256.jsonl").read_bytes()
