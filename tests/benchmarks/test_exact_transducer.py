"""Exact log-probs of texts and the tests of greedy search, compared with the oracle of the beam search."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="exact log-probs need torch")

from arcbeam import TransducerDecoder  # noqa: E402
from benchmarks.tasks.exact_transducer import ExactTransducer  # noqa: E402
from tests.transducer import beam_oracle  # noqa: E402
from tests.transducer.beam_oracle import Model, Networks  # noqa: E402
from tests.transducer.networks import random_arrays, random_frames  # noqa: E402

BLANK, FRAMES = 4, 9
KINDS = [None, (0, 1, 2, 3, 4), (0, 2, 5)]


@pytest.fixture(params=KINDS)
def task(request):
    """(arrays, frames, durations, exact)."""
    durations = request.param
    arrays = random_arrays(5, tokens=5, durations=len(durations or ()), layers=1)
    return arrays, random_frames(5, FRAMES), durations, ExactTransducer(arrays, BLANK, durations)


def model_of(arrays, frames, durations, max_symbols):
    return Model(Networks(arrays, frames, BLANK, durations, activation="relu"), FRAMES, BLANK, durations, max_symbols)


@pytest.mark.parametrize("tokens", [[], [2], [0, 3, 3, 1]])
def test_the_exact_log_prob(task, tokens):
    arrays, frames, durations, exact = task
    wanted = beam_oracle.full_sum(model_of(arrays, frames, durations, 100), tuple(tokens))
    assert exact.log_prob(frames, tokens) == pytest.approx(wanted, abs=1e-4)  # of float32 log-probs


@pytest.mark.parametrize("max_symbols", [1, 2, 10])
def test_the_rows_of_greedy_search(task, max_symbols):
    arrays, frames, durations, exact = task
    model = model_of(arrays, frames, durations, max_symbols)
    frame, depth, history, rows = 0, 0, (), 0
    while frame < FRAMES:
        rows += 1
        tokens, ahead = model.networks.log_probs(history, frame)
        token = int(np.argmax(tokens))
        history = history if token == BLANK else (*history, token)
        frame, depth = model.after(frame, depth, token, model.steps[int(np.argmax(ahead))])
    decoder = TransducerDecoder.from_arrays(
        arrays, BLANK, activation="relu", durations=durations, max_symbols=max_symbols, device="cpu"
    )
    [found] = decoder.decode([frames])
    assert found.tokens.tolist() == list(history) and history
    assert exact.greedy_rows(frames, found.tokens.tolist(), max_symbols) == rows
    with pytest.raises(ValueError, match=r"token 0: greedy search writes \d on frame"):
        exact.greedy_rows(frames, [(history[0] + 1) % BLANK], max_symbols)
