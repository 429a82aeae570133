"""The twin against torch's LSTM, Conv1d and Linear: the same tokens, states and log-probs to 1e-5."""

import numpy as np
import pytest

from arcbeam import TransducerDecoder
from tests.transducer import torch_reference


def check(arrays, frames, durations, tokens, times, log_probs, hidden, cell):
    decoder = TransducerDecoder.from_arrays(arrays, 0, durations=durations, relu="convolution" in arrays)
    [found] = decoder.decode([frames])
    assert found.tokens.tolist() == tokens.tolist()
    assert found.frames.tolist() == times.tolist()
    np.testing.assert_allclose(found.log_probs, log_probs, atol=1e-5)
    if hidden.size:
        np.testing.assert_allclose(found.state.hidden, hidden, atol=1e-5)
        np.testing.assert_allclose(found.state.cell, cell, atol=1e-5)
    return len(tokens)


@pytest.mark.parametrize("case", torch_reference.CASES)
def test_what_torch_gave_once(case):
    stored = np.load(torch_reference.FILE)
    prefix = f"{case}/arrays/"
    arrays = {name.removeprefix(prefix): stored[name] for name in stored if name.startswith(prefix)}
    outputs = [stored[f"{case}/{name}"] for name in ("tokens", "times", "log_probs", "hidden", "cell")]
    assert check(arrays, stored[f"{case}/frames"], torch_reference.CASES[case][1], *outputs) > 5


@pytest.mark.parametrize("case", torch_reference.CASES)
def test_what_torch_gives_now(case):
    torch = pytest.importorskip("torch", reason="torch decodes, too")
    torch.set_num_threads(1)
    written = 0
    for seed in range(20):
        arrays, frames, durations = torch_reference.make(case, seed)
        written += check(arrays, frames, durations, *torch_reference.decode(arrays, frames, 0, durations))
    assert written > 100
