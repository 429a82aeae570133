"""The experiment of streams: its measures by hand, and its rows on tiny sets."""

import numpy as np
import pytest

from arcbeam import CtcDecoder
from arcbeam.words import Word
from benchmarks.experiments import stream_words
from benchmarks.harness.registry import Context
from tests.benchmarks.test_confidence_tables import tiny

__all__ = ["tiny"]


class Partial:
    def __init__(self, frames, text, stable, arcs=b"", score=0.0):
        self.num_frames, self.text, self.arcs, self.score = frames, text, np.frombuffer(arcs, np.uint8), score
        self.words = [Word(word, 0, 2, 0.0, end) for word, end in zip(text.split(), (0.2, 0.4, 0.6), strict=False)]
        self.stable_words = self.words[:stable]


class Decoder:
    """Says "a b c", where the second chunk has taken its first guess back."""

    def __init__(self, stable, score=0.0):
        self.score = score
        texts = ["a x", "a b", "a b c"]
        self.partials = [Partial(5 * (i + 1), text, n) for i, (text, n) in enumerate(zip(texts, stable, strict=True))]

    def stream(self):
        return self

    def decode_chunk(self, log_probs):
        assert len(log_probs) == 5
        return self.partials.pop(0)

    def finish(self):
        return Partial(15, "a b c", 3)

    def decode(self, batch):
        return [Partial(15, "a b c", 3, score=self.score)]


def test_delays_by_hand():
    followed = stream_words.Followed()
    followed.stream(Decoder([0, 1, 2]), np.zeros((15, 3)), 5, 0.1)
    assert followed.delays == pytest.approx([1.0 - 0.2, 1.5 - 0.4])
    assert (followed.words, followed.partials, followed.taken_back, len(followed.costs)) == (3, 3, 1, 3)
    row = stream_words.row(followed, 0.5)
    assert row["before_end"] == pytest.approx(200 / 3) and row["taken_back"] == pytest.approx(100 / 3)


def test_what_is_wrong_is_found():
    with pytest.raises(AssertionError, match="taken back"):
        stream_words.Followed().stream(Decoder([2, 2, 2]), np.zeros((15, 3)), 5, 0.1)
    with pytest.raises(AssertionError, match="whole utterance"):
        stream_words.Followed().stream(Decoder([0, 0, 0], score=1.0), np.zeros((15, 3)), 5, 0.1)


def test_rows(tiny, monkeypatch):
    monkeypatch.setattr(stream_words, "ROUNDS", 5)
    assert CtcDecoder is stream_words.arcbeam.CtcDecoder
    rows = list(stream_words.run(Context(utterances=3)))
    assert len(rows) == len(stream_words.SETS) * len(stream_words.BEAMS) * len(stream_words.CHUNKS)
    for row in rows:
        assert row["words"] > 0 and 0 <= row["before_end"] <= 100 and row["core"] > 0
