"""The experiment of endpoints: its measures by hand, and its rows on tiny sets."""

import numpy as np
import pytest

from arcbeam import CtcDecoder, Endpoint, EndpointRule
from arcbeam.words import Word
from benchmarks.experiments import endpoints
from benchmarks.harness.registry import Context
from tests.benchmarks.test_confidence_tables import tiny
from tests.decode.test_endpoints import LETTERS, spoken

__all__ = ["tiny"]


def test_measures_by_hand():
    spoken_at = [(10, 40), (60, 90), (110, 140)]
    # Before the first word, in a pause twice, within the second utterance (once by length), and after the last word.
    found = [(5, False), (45, False), (50, False), (61, True), (70, False), (150, True)]
    row = endpoints.judged(spoken_at, found, 0.1)
    assert (row["pauses"], row["missed"]) == (3, pytest.approx(100 / 3))
    assert (row["false"], row["long"]) == (pytest.approx(100 / 3), pytest.approx(100 / 3))
    assert (row["delay_median"], row["delay_p95"]) == (pytest.approx(0.75), pytest.approx(0.975))
    assert endpoints.judged([], [], 0.1)["delay_median"] is None


def test_a_joined_recording():
    utterances = [spoken(0, 1, 1, 2), spoken(2, 0), spoken(1, 0)]
    words = [[Word("a", 1, 3, None, None)], [], [Word("a", 0, 1, None, None)]]
    made = endpoints.joined(utterances, words, [0, 2], 3, np.random.default_rng(0))
    assert len(made.log_probs) == 8 + 9 and made.starts == [0, 7, 12]
    assert made.spoken == [(1, 3), (12, 13)]
    for begin in (4, 9, 14):  # pauses
        assert set(made.log_probs[begin : begin + 3].argmax(axis=1)) <= {0, 2}
    with pytest.raises(ValueError, match="nobody speaks"):
        endpoints.joined([spoken(1)], [[Word("a", 0, 1, None, None)]], [0], 3, np.random.default_rng(0))


def test_sentences_and_their_words():
    decoder = CtcDecoder(LETTERS, device="cpu", threads=1, frame_shift=0.1)
    pause = Endpoint({"pause": EndpointRule(min_trailing_silence=0.4)})
    found = endpoints.sentences(decoder, spoken(*[1, 0, 0, 0, 0, 0, 0] * 2), pause, chunk=5)
    assert [(one.num_frames, one.endpoint) for one in found] == [(6, "pause"), (12, "pause"), (14, None)]
    assert endpoints.texts([0, 7], found) == ["a", "a"]


def test_rows(tiny):
    rows = list(endpoints.run(Context(utterances=20)))
    assert len(rows) == len(endpoints.SETS) * len(endpoints.PAUSES) * len(endpoints.RULES)
    for row in rows:
        assert 0 < row["pauses"] <= 20 and 0 <= row["missed"] <= 100 and row["wer"] >= 0
