"""Searches that begin in states of their own, on an emulated GPU: the CPU's bytes in every launch."""

import numpy as np
import pytest

from arcbeam import CapacityError
from tests.decode.alignments import a_decoder, same
from tests.decode.emulated_gpu import TIGHT, DeviceArray, Shape, scheduled
from tests.decode.small_search import ROOMY

SAID = ["a ab bee", "", "<star> ab", "bee aa <star> a ab", "aa a"]


def a_batch():
    rng = np.random.default_rng(4)
    return [np.log(rng.dirichlet(np.ones(4), n)).astype(np.float32) for n in (30, 0, 9, 60, 17)]


def check(room=ROOMY, shape=None, schedule=None, batch=None):
    batch = a_batch() if batch is None else batch
    wanted = a_decoder().align(batch, SAID, star=1.0)
    with scheduled(schedule, room=room, shape=shape) as gpu:
        same(a_decoder("cuda").align(batch, SAID, star=1.0), wanted)
        assert gpu.searches and set(gpu.searches) == {"search"}


@pytest.mark.parametrize("room", [ROOMY, TIGHT], ids=["roomy", "tight"])
@pytest.mark.parametrize(
    "shape", [Shape(), Shape(lanes=1, block=32), Shape("cluster", cluster=2), Shape(hot_tokens=1, hot_lanes=2)], ids=str
)
def test_every_launch(room, shape):
    check(room, shape, {"seed": 3})


def test_a_decoder_of_a_gpu_refuses_starts_elsewhere():
    with scheduled({"seed": 1}, room=ROOMY):
        starts_that_are_refused("cuda")


def test_a_decoder_of_the_cpu_refuses_starts_elsewhere():
    starts_that_are_refused("cpu")


def starts_that_are_refused(device):
    """Of chunks, boosts and lattices none begins in a state of its own."""
    decoder = a_decoder(device)
    inputs = decoder._search.intake.take(a_batch()[:1], None)
    for more, message in [
        ({"starts": [0], "lattice_beam": 1.0}, "starts: expected utterances without boosts, streams, lattices"),
        ({"starts": [1]}, "starts: expected states below 1, got 1 to 1"),
        ({"starts": [0, 0]}, r"starts: expected a state for each of 1 utterances, got int64 \(2,\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            decoder._search.engine.decode(inputs.table, inputs.columns, inputs.on_host, **more)
    assert len(decoder.decode(a_batch())) == 5


def test_no_memory_of_the_device_is_kept():
    with scheduled({"seed": 1}, room=ROOMY):
        same_memory()


def same_memory():
    decoder = a_decoder("cuda")
    before = decoder.memory()
    for _ in range(2):
        decoder.align(a_batch(), SAID, star=1.0)
    assert decoder.memory() == before


def test_the_memory_limit():
    """The engine of a call takes what the decoder's can give back; where that is too little, the decoder goes on."""
    with scheduled({"seed": 1}, room=ROOMY):
        limited()


def limited():
    wanted = a_decoder().align(a_batch(), SAID, star=1.0)
    decoder = a_decoder("cuda", memory_limit=1 << 20)
    decoder.decode(a_batch())
    assert decoder.memory().device_bytes > 1 << 19
    same(decoder.align(a_batch(), SAID, star=1.0), wanted)
    tight = a_decoder("cuda", memory_limit=600_000)
    with pytest.raises(CapacityError, match=r"memory_limit: .* use a larger memory_limit"):
        tight.align(a_batch(), SAID, star=1.0)
    assert len(tight.decode(a_batch())) == 5


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_arrays_on_the_gpu(gpu, kind):
    """They are copied to the host for the proof and the confidences, and read after what writes them."""
    batch = [one.astype(kind) for one in a_batch()]
    wanted = a_decoder().align(batch, SAID, star=1.0)
    for one in batch:
        if one.nbytes:
            gpu.fake.lend("memory", one.ctypes.data, one.nbytes)
    on_device = [DeviceArray(one) for one in batch]
    same(a_decoder("cuda").align(on_device, SAID, star=1.0), wanted)
    same(a_decoder("cuda").align(on_device, SAID, star=1.0, cuda_stream=2), wanted)
    gpu.fake.library.fake_take_back()
