"""Real speech and workloads on a real GPU: the CPU engine's bytes on every set, at three beams, on real graphs.

Sets and graphs are those of the benchmarks (`make gpu-graphs` builds the graphs). ARCBEAM_SPEECH_GRAPHS names the
graphs to decode with, ``char-large`` for the one of 12 million states.
"""

import os

import numpy as np
import pytest

from arcbeam import CtcDecoder
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
