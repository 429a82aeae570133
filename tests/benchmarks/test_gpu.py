"""Log-probs on the device, answers beside the twin's, the adapter of arcbeam: what experiments on a GPU share."""

import numpy as np
import pytest

from arcbeam.gpu.tuned import search_plan
from benchmarks import adapters
from benchmarks.adapters import SearchOptions, Unavailable, gpu
from benchmarks.data import datasets, graphs
from tests.benchmarks.on_emulated_gpu import Peer
from tests.decode.random_graphs import random_log_probs


def test_answers_that_are_not_the_twins(small):
    graph = graphs.get("tiny").graph
    batch = [random_log_probs(seed, 5, 12) for seed in range(3)]
    found = gpu.decoder(graph, gpu.WIDE).decode(batch)
    gpu.check(found, graph, gpu.WIDE, batch)
    with pytest.raises(gpu.Wrong, match="expected 3 answers, got 2"):
        gpu.check(found[:2], graph, gpu.WIDE, batch)
    with pytest.raises(gpu.Wrong, match="utterance 0: the path differs"):
        gpu.check(found[::-1], graph, gpu.WIDE, batch)
    found[1].score += 1e-9
    with pytest.raises(gpu.Wrong, match="utterance 1: score"):
        gpu.check(found, graph, gpu.WIDE, batch)


def test_log_probs_lie_on_the_device_as_they_were(small):
    batch = [random_log_probs(0, 3, 12), random_log_probs(0, 3, 12)[:0], random_log_probs(1, 2, 12)]
    for dtype in (np.float32, np.float16):
        arrays = gpu.send(batch, dtype)
        for array, logp in zip(arrays, batch, strict=True):
            told = array.__cuda_array_interface__
            assert (told["shape"], told["typestr"]) == (logp.shape, np.dtype(dtype).str)
            first = arrays[0].__cuda_array_interface__["data"][0]
            assert (told["data"][0] - first) % 256 == 0 or not len(logp)
        assert Peer.look_into(None, arrays)[2].tobytes() == batch[2].tobytes() or dtype is np.float16
        del array, arrays


def test_sets_are_cycled_to_larger_ones(small):
    dataset = datasets.load("x")
    more = gpu.cycled(dataset, 14)
    assert len(more.ids) == len(more.utterances) == 14
    assert more.utterances[13].tobytes() == dataset.utterances[1].tobytes()
    assert gpu.cycled(dataset, 2).ids == ["u0", "u1"]


def test_without_a_gpu_the_adapter_says_why(monkeypatch):
    monkeypatch.setattr(gpu, "why_no_cuda", lambda: "no CUDA driver: none")
    with pytest.raises(Unavailable, match="no CUDA driver"):
        adapters.make("arcbeam_cuda")(None, SearchOptions())


def test_one_decode_for_a_profiler(small, capsys, monkeypatch):
    from benchmarks import one_decode

    monkeypatch.setattr(search_plan, "first_room", search_plan.first_room)  # which it changes
    assert one_decode.main(["--batch", "3", "--beam", "5"]) == 0
    assert "tokens," in capsys.readouterr().out
    assert len(small.shapes) == 2, "a launch each"
