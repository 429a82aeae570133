"""Log-probs of the host on their way to a real GPU: the CPU engine's bytes, in whatever pieces and parts they come."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from arcbeam import CtcDecoder
from arcbeam.gpu import _cuda
from arcbeam.gpu._memory import PinnedBuffer
from arcbeam.gpu.tuned import search_plan
from tests.decode.equality import same
from tests.decode.random_graphs import random_graph, random_log_probs

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = 128
OPTIONS = {"beam": 10.0, "max_active": 500}
# (first part, largest part, pieces of all lanes), in bytes: as shipped; tiny, small, all
SIZES = [
    None,
    (1 << 12, 1 << 12, 1 << 10),
    (1 << 16, 1 << 20, 1 << 17),
    (1 << 30, 1 << 30, 1 << 30),
]


@pytest.fixture(scope="module")
def graph():
    return random_graph(2, states=3000, columns=COLUMNS)


@pytest.fixture(scope="module")
def batch():
    """More than there are lanes, some much longer than others; 37 MB."""
    padded = np.stack([random_log_probs(seed, 240, COLUMNS) for seed in range(300)])
    lengths = np.random.default_rng(0).integers(1, 241, len(padded))
    lengths[:200] = 240
    return padded, lengths


@pytest.fixture(scope="module")
def wanted(graph, batch):
    return CtcDecoder(graph, device="cpu", **OPTIONS).decode(*batch)


def set_sizes(monkeypatch, sizes):
    names = ("FIRST_PART_BYTES", "LARGEST_PART_BYTES", "PIECES_BYTES")
    for name, value in zip(names, sizes or (), strict=False):
        monkeypatch.setattr(search_plan, name, value)


def pinned(array):
    buffer = PinnedBuffer(_cuda.context_of(0))
    buffer.resize(array.nbytes)
    copy = np.frombuffer(buffer, array.dtype, array.size).reshape(array.shape)
    copy[...] = array
    return copy


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("place", [np.asarray, pinned])
def test_sizes_of_parts(graph, batch, wanted, monkeypatch, sizes, place):
    set_sizes(monkeypatch, sizes)
    padded, lengths = batch
    there = place(padded)
    decoder = CtcDecoder(graph, device="cuda", **OPTIONS)
    for _ in range(5):
        same(decoder.decode(there, lengths), wanted)
    order = np.random.default_rng(1).permutation(len(padded))
    found = decoder.decode([there[i, : lengths[i]] for i in order])
    same(found, [wanted[i] for i in order])


@pytest.mark.parametrize("sizes", SIZES[:2], ids=str)
def test_many_batches_in_the_same_memory(graph, batch, wanted, monkeypatch, sizes):
    """What the one before has left there is never read."""
    set_sizes(monkeypatch, sizes)
    padded, lengths = batch
    decoder = CtcDecoder(graph, device="cuda", **OPTIONS)
    for shift in range(30):
        order = np.roll(np.arange(len(padded)), shift)
        same(decoder.decode(padded[order], lengths[order]), [wanted[i] for i in order])


@pytest.mark.parametrize("wait_cycles", [0, 1000])
def test_lanes_that_hardly_wait(graph, batch, wanted, monkeypatch, wait_cycles):
    monkeypatch.setattr(search_plan, "WAIT_CYCLES", wait_cycles)
    set_sizes(monkeypatch, SIZES[1])
    same(CtcDecoder(graph, device="cuda", **OPTIONS).decode(*batch), wanted)


@pytest.mark.parametrize("window_bytes", [1 << 20, 10 << 20])
def test_windows(graph, batch, wanted, monkeypatch, window_bytes):
    room = search_plan.Room(spill_states=4096, log_entries=1 << 16, window_bytes=window_bytes)
    monkeypatch.setattr(search_plan, "first_room", lambda max_active: room)
    same(CtcDecoder(graph, device="cuda", **OPTIONS).decode(*batch), wanted)


def test_float16_and_rows_apart(graph, batch):
    half = batch[0][:50].astype(np.float16)
    apart = np.concatenate([half, half], axis=-1)[..., :COLUMNS]
    expected = CtcDecoder(graph, device="cpu", **OPTIONS).decode(half)
    decoder = CtcDecoder(graph, device="cuda", **OPTIONS)
    for array in (half, apart, pinned(half)):
        same(decoder.decode(array), expected)


def test_arrays_that_torch_has_pinned(graph, batch, wanted):
    torch = pytest.importorskip("torch")
    decoder = CtcDecoder(graph, device="cuda", **OPTIONS)
    same(decoder.decode(torch.from_numpy(batch[0]).pin_memory(), batch[1]), wanted)


BLOCKING = """
import numpy as np
from arcbeam import CtcDecoder
from tests.decode.equality import same
from tests.decode.random_graphs import random_graph, random_log_probs

graph = random_graph(2, states=3000, columns=128)
batch = np.stack([random_log_probs(seed, 240, 128) for seed in range(150)])
wanted = CtcDecoder(graph, device="cpu", beam=10.0, max_active=500).decode(batch)
decoder = CtcDecoder(graph, device="cuda", beam=10.0, max_active=500)
for _ in range(3):
    same(decoder.decode(batch), wanted)
print("same")
"""


def test_launches_that_return_when_they_have_ended():
    environment = os.environ | {"CUDA_LAUNCH_BLOCKING": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    got = subprocess.run(
        [sys.executable, "-c", BLOCKING], capture_output=True, text=True, timeout=200, cwd=ROOT, env=environment
    )
    assert got.stdout == "same\n", got.stderr


@pytest.mark.parametrize("after", [0.02, 0.05, 0.1, 0.2])
def test_control_c_at_some_time(graph, batch, wanted, after):
    decoder = CtcDecoder(graph, device="cuda", **OPTIONS)
    padded, lengths = batch
    long = np.concatenate([padded] * 20)  # 740 MB
    same(decoder.decode(padded, lengths), wanted)

    def interrupt(signum, frame):
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, after)
        decoder.decode(long)
        while signal.getitimer(signal.ITIMER_REAL)[0] > 0:  # it was faster
            time.sleep(0.001)
    except KeyboardInterrupt:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
    same(decoder.decode(padded, lengths), wanted)
