"""Beam search of transducers on a real GPU: the CPU engine's bytes, in every shape of a launch, in any batch."""

import math

import numpy as np
import pytest

from arcbeam import TransducerDecoder
from arcbeam.gpu.tuned import transducer_plan
from tests.gpu.test_transducer_on_gpu import LENGTHS, NETWORKS, frames_of, make
from tests.transducer.equality import lists_as_bytes

KEPT = transducer_plan.LoopShape("kept", 512, 8, 0, 0)
SHAPES = {
    "kept": KEPT,
    "kept, narrow": transducer_plan.LoopShape("kept", 96, 8, 0, 0),
    "kept, teams": transducer_plan.LoopShape("kept", 512, 8, 0, 0, teams=3),
    "many": transducer_plan.LoopShape("many", 256, 8, 0, 0),
    "many, narrow": transducer_plan.LoopShape("many", 96, 8, 0, 0),
}
ALONE = transducer_plan.LoopShape("kept", 512, 8, 0, 0, joins_alone=True)


@pytest.fixture(scope="module", params=NETWORKS)
def kind(request):
    return request.param


def listed(kind, device, frames, **options):
    decoder = make(kind, device, **{"beam": 4.0, **options})
    return lists_as_bytes(decoder.decode(frames, nbest=decoder.options.max_hypotheses))


@pytest.fixture(scope="module")
def wanted(kind):
    return listed(kind, "cpu", frames_of(kind, LENGTHS))


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape(kind, wanted, shape, monkeypatch):
    if kind == "large" and shape.startswith("kept, teams"):
        pytest.skip("three teams do not fit")
    monkeypatch.setattr(transducer_plan, "beam_shapes", lambda *_: (SHAPES[shape], SHAPES["many"]))
    assert listed(kind, "cuda", frames_of(kind, LENGTHS)) == wanted


def test_batches(kind, wanted):
    frames = frames_of(kind, LENGTHS)
    decoder = make(kind, "cuda", beam=4.0)
    order = np.random.default_rng(0).permutation(len(frames))
    found = lists_as_bytes(decoder.decode([frames[i] for i in order], nbest=8))
    assert [found[int(np.flatnonzero(order == i)[0])] for i in range(len(frames))] == wanted
    for i in (0, 1, 3, 7):
        assert lists_as_bytes(decoder.decode(frames[i : i + 1], nbest=8)) == wanted[i : i + 1]


def test_one_utterance_joined_by_every_block(kind, wanted, monkeypatch):
    monkeypatch.setattr(transducer_plan, "beam_shapes", lambda *_: (ALONE, SHAPES["many"]))
    assert listed(kind, "cuda", frames_of(kind, LENGTHS)[3:4]) == wanted[3:4]


@pytest.mark.parametrize("options", [{"beam": math.inf}, {"beam": 8.0, "max_hypotheses": 32}, {"merge": "max"}])
def test_wide_beams_whose_rooms_grow(kind, options, monkeypatch):
    frames = frames_of(kind, LENGTHS[:8])
    wanted = listed(kind, "cpu", frames, **options)
    monkeypatch.setattr(transducer_plan, "beam_rooms", lambda frames, most: (8 * most, 256, 4 * most, most))
    assert listed(kind, "cuda", frames, **options) == wanted


def test_bfloat16_in_any_batch_and_shape(kind, monkeypatch):
    frames = frames_of(kind, LENGTHS)
    first = listed(kind, "cuda", frames, precision="bfloat16")
    for shape in SHAPES.values():
        monkeypatch.setattr(transducer_plan, "beam_shapes", lambda *_, shape=shape: (shape, SHAPES["many"]))
        assert listed(kind, "cuda", frames[3:6], precision="bfloat16") == first[3:6]


def test_the_demo_s_model(demo_data):
    with np.load(demo_data / "encoder_output.npz") as file:
        frames = list(file.values())
    found, wanted = (
        TransducerDecoder.from_arrays(demo_data / "transducer.npz", device=device, beam=4.0).decode(frames, nbest=8)
        for device in ("cuda", "cpu")
    )
    assert lists_as_bytes(found) == lists_as_bytes(wanted)
