"""errors="return": an utterance that cannot be decoded costs its own result alone."""

import math

import numpy as np
import pytest

from arcbeam import CtcDecoder, InputError
from arcbeam.gpu.tuned import search_plan
from tests.decode.emulated_gpu import TIGHT, DeviceArray
from tests.decode.equality import same
from tests.decode.small_search import BATCH, GRAPH, OPTIONS, ROOMY, on_cpu

NAN = "log_probs: expected finite values or -inf, got nan in utterance 1, frame 4, column 6"
INF = "log_probs: expected finite values or -inf, got inf in utterance 4, frame 0, column 0"


def spoiled(good, dtype=np.float32):
    """Five utterances, of which the second and the last are none."""
    batch = [logp.astype(dtype) for logp in (good[0], good[2].copy(), good[2], good[3], good[4].copy())]
    batch[1][4, 6:] = np.nan
    batch[4][0, 0] = np.inf
    return batch


def check(found, wanted):
    """`wanted`: the hypotheses of the other three, decoded without these."""
    assert [h.error is None for h in found] == [True, False, True, True, False]
    same([found[i] for i in (0, 2, 3)], wanted)
    for i, message in ((1, NAN), (4, INF)):
        bad = found[i]
        assert isinstance(bad.error, InputError) and isinstance(bad.error, ValueError)
        assert str(bad.error) == message
        assert bad.error.utterance == i and f"frame {bad.error.frame}, column {bad.error.column}" in message
        assert (bad.text, bad.words, bad.score, bad.partial_score) == ("", [], -math.inf, -math.inf)
        assert (bad.complete, bad.reached_final) == (False, False)
        assert (len(bad.arcs), len(bad.tokens), bad.graph_score, bad.acoustic_score) == (0, 0, 0.0, -math.inf)
        assert repr(bad) == f"Hypothesis(error=InputError({message!r}))"


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_the_others_are_what_they_are_without_it(device, request, dtype):
    if device == "cuda":
        request.getfixturevalue("gpu")
    batch = spoiled(BATCH, dtype)
    decoder = CtcDecoder(GRAPH, device=device, **OPTIONS)
    wanted = on_cpu([batch[i] for i in (0, 2, 3)])
    check(decoder.decode(batch, errors="return"), wanted)
    frames = sum(len(batch[i]) for i in (0, 2, 3))
    assert decoder.stats.frames == frames
    with pytest.raises(ValueError, match=NAN):
        decoder.decode(batch)
    with pytest.raises(ValueError, match=NAN):
        decoder.decode(batch, errors="raise")
    assert decoder.stats.frames == frames
    same(decoder.decode([batch[i] for i in (0, 2, 3)], errors="return"), wanted)


def test_nothing_but_bad_ones(device):
    decoder = CtcDecoder(GRAPH, device=device, **OPTIONS)
    found = decoder.decode(np.full((3, 2, 12), np.nan, np.float32), [2, 0, 1], errors="return")
    assert [h.error is None for h in found] == [False, True, False]
    assert [h.complete for h in found] == [False, True, False]


def test_the_frames_beyond_the_length_may_be_anything(device):
    batch = np.stack([BATCH[2], BATCH[2]])
    batch[1, 5:] = np.nan
    found = CtcDecoder(GRAPH, device=device, **OPTIONS).decode(batch, [6, 5], errors="return")
    same(found, on_cpu([BATCH[2][:6], BATCH[2][:5]]))


@pytest.mark.parametrize("room", [TIGHT, search_plan.Room(512, 4096, window_bytes=1024), ROOMY])
def test_on_a_gpu_whatever_its_room(gpu, room):
    """Utterances of several windows, lanes that stop and go on, and a second utterance in a lane that met a bad one."""
    gpu.begin_with(room)
    gpu.send_in_parts()
    batch = spoiled(BATCH) * 3
    found = CtcDecoder(GRAPH, device="cuda", **OPTIONS).decode(batch, errors="return")
    wanted = on_cpu([batch[i] for i in (0, 2, 3)])
    for at in (0, 5, 10):
        same([found[at + i] for i in (0, 2, 3)], wanted)
        assert [str(found[at + i].error).split(" in ")[1] for i in (1, 4)] == [
            f"utterance {at + 1}, frame 4, column 6",
            f"utterance {at + 4}, frame 0, column 0",
        ]


def test_arrays_that_are_on_the_gpu(gpu):
    batch = spoiled(BATCH)
    found = CtcDecoder(GRAPH, device="cuda", **OPTIONS).decode([DeviceArray(b) for b in batch], errors="return")
    check(found, on_cpu([batch[i] for i in (0, 2, 3)]))


def test_nan_after_the_death_of_a_search(device):
    """Which is complete=False by itself: the NaN is what counts."""
    dead = BATCH[2].copy()
    dead[2] = -np.inf
    worse = dead.copy()
    worse[5, 1] = np.nan
    found = CtcDecoder(GRAPH, device=device, **OPTIONS).decode([dead, worse], errors="return")
    assert [h.complete for h in found] == [False, False]
    assert [h.error is None for h in found] == [True, False]


@pytest.mark.parametrize("errors", ["ignore", None, True, ["return"]])
def test_other_ways_to_treat_errors(errors):
    with pytest.raises(ValueError, match=r"errors: expected 'raise' or 'return', got "):
        CtcDecoder(GRAPH, device="cpu").decode(BATCH, errors=errors)
