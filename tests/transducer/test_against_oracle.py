"""The twin against the oracle: tokens, frames, durations and log-probs, to the byte, on every vector unit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcbeam import TransducerDecoder
from arcbeam.transducer._transducer import available_kernels
from arcbeam.transducer.decoder import FrameLoopingDecoder
from tests.hypothesis_examples import examples
from tests.transducer import oracle
from tests.transducer.networks import cases, on_unit, random_arrays, random_frames


def check(hypothesis, written, is_tdt):
    assert hypothesis.tokens.tolist() == written.tokens
    assert hypothesis.frames.tolist() == written.frames
    assert (hypothesis.durations is not None) == is_tdt
    if is_tdt:
        assert hypothesis.durations.tolist() == written.durations
    assert hypothesis.log_probs.tobytes() == np.array(written.log_probs, np.float32).tobytes()


@settings(max_examples=examples(80))
@given(case=cases(), precision=st.sampled_from(["float32", "bfloat16"]))
def test_any_network(case, precision):
    arrays, options, frames = case
    options = {**options, "precision": precision}
    expected = [oracle.decode(arrays, x, options["blank_id"], *list(options.values())[1:]) for x in frames]
    for kernels in available_kernels():
        for loop in (TransducerDecoder, FrameLoopingDecoder):
            with on_unit(kernels):
                decoder = loop.from_arrays(arrays, **options, threads=1)
            for hypothesis, written in zip(decoder.decode(frames), expected, strict=True):
                check(hypothesis, written, options["durations"] is not None)


@pytest.mark.parametrize(("tokens", "units"), [(16_384, 24), (128, 1_024)])
def test_sizes_of_published_models(tokens, units):
    arrays = random_arrays(2, tokens=tokens, units=units, joint=units, layers=1, blank=tokens - 1, blank_bias=2.0)
    frames = random_frames(2, 3)  # the oracle multiplies numbers one by one
    written = oracle.decode(arrays, frames, tokens - 1)
    assert len(written.tokens) > 0
    decoder = TransducerDecoder.from_arrays(arrays, tokens - 1, threads=1)
    check(decoder.decode([frames])[0], written, False)


@pytest.mark.parametrize("durations", [None, [0, 1, 2, 3, 4], [0]])
@pytest.mark.parametrize("max_symbols", [1, 3])
def test_max_symbols_are_reached(durations, max_symbols):
    arrays = random_arrays(5, durations=len(durations or ()), blank_bias=-2.0)
    arrays["output_bias"][13:14] += 3.0  # the first duration, so that labels stay on their frame
    frames = random_frames(5, 20)
    written = oracle.decode(arrays, frames, 0, durations, max_symbols)
    most = max(np.bincount(written.frames))
    assert most == max_symbols
    decoder = TransducerDecoder.from_arrays(arrays, 0, durations=durations, max_symbols=max_symbols)
    check(decoder.decode([frames])[0], written, durations is not None)


def test_ties_go_to_the_smallest_token():
    arrays = random_arrays(1, durations=3, blank_bias=-9.0)
    for name in ("output_weight", "output_bias"):
        arrays[name][5] = arrays[name][3] = arrays[name][8]  # equal logits, and no others above them
        arrays[name][[15, 14]] = arrays[name][13]
    arrays["output_bias"][[3, 5, 8]] += 50
    decoder = TransducerDecoder.from_arrays(arrays, 0, durations=[2, 3, 4], threads=1)
    [hypothesis] = decoder.decode([random_frames(1, 9)])
    assert set(hypothesis.tokens.tolist()) == {3}
    assert set(hypothesis.durations.tolist()) == {2}


def test_a_vocabulary_of_the_blank_alone():
    arrays = random_arrays(1, tokens=1)
    [hypothesis] = TransducerDecoder.from_arrays(arrays, 0).decode([random_frames(1, 30)])
    assert len(hypothesis.tokens) == 0
