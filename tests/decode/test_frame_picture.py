"""The picture of a hypothesis: its words over the frames that spell them, over the probabilities of labels."""

import pickle
import sys

import numpy as np
import pytest

from arcbeam import CtcDecoder, MissingDependencyError
from arcbeam.ctc import frame_picture
from tests.decode.test_word_times import BLANK, SPACE, SPELLED, A, B, rows, word_graph

SAID = "--aa-bb__-b-"  # ab in frames 2 to 7, b in frame 10


@pytest.fixture
def pyplot():
    pytest.importorskip("matplotlib").use("Agg")
    return pytest.importorskip("matplotlib.pyplot")


def decoded(**options):
    return CtcDecoder(word_graph(SPELLED), device="cpu", **options).decode([rows(SAID)])[0]


def drawn(ax):
    """Bars as (word, start, end), the matrix, its edges and the names of its rows."""
    bars = [
        (text.get_text(), bar.get_x(), bar.get_x() + bar.get_width())
        for text, bar in zip(ax.texts, ax.patches, strict=True)
    ]
    [image] = ax.images
    return bars, image.get_array(), image.get_extent(), [label.get_text() for label in ax.get_yticklabels()]


@pytest.mark.parametrize("shift", [None, 0.5])
@pytest.mark.parametrize("pickled", [False, True])
def test_words_are_where_their_times_are(pyplot, shift, pickled):
    found = decoded(frame_shift=shift)
    found = pickle.loads(pickle.dumps(found)) if pickled else found
    bars, matrix, extent, names = drawn(found.plot(rows(SAID)))
    scale = shift or 1.0
    assert bars == [("ab", 2 * scale, 7 * scale), ("b", 10 * scale, 11 * scale)]
    assert extent[:2] == [0, 12 * scale] and names == ["<space>", "a", "b", "<blank>"]
    assert np.array_equal(matrix, np.exp(rows(SAID)).T)


def test_a_stretch_has_its_words_and_its_labels(pyplot):
    ax = pyplot.subplots()[1]
    assert decoded().plot(rows(SAID), ax, start=9, end=12) is ax
    bars, matrix, extent, names = drawn(ax)
    assert bars == [("b", 10, 11)] and extent[:2] == [9, 12] and names == ["b", "<blank>"]
    assert np.array_equal(matrix, np.exp(rows(SAID)[9:, [B, BLANK]]).T)


def test_times_of_a_stream_count_from_its_beginning(pyplot):
    stream = CtcDecoder(word_graph(SPELLED), device="cpu").stream()
    stream.decode_chunk(rows("ab"))
    stream.reset()
    stream.decode_chunk(rows(SAID))
    bars, _, extent, _ = drawn(stream.finish().plot(rows(SAID)))
    assert bars[0] == ("ab", 4, 9) and extent[:2] == [2, 14]


def test_the_likeliest_columns_are_shown(monkeypatch):
    probabilities = np.zeros((3, 60), np.float32)
    probabilities[1, 10:57] = np.linspace(0.05, 0.9, 47)
    assert frame_picture.shown_columns(probabilities).tolist() == list(range(17, 57))
    assert frame_picture.shown_columns(np.exp(rows("a_b"))).tolist() == [SPACE, A, B]
    monkeypatch.setattr(frame_picture, "MOST", 2)
    probabilities[2, 3] = 1.0
    assert frame_picture.shown_columns(probabilities).tolist() == [3, 56]


def test_what_cannot_be_drawn(pyplot, monkeypatch):
    found = decoded()
    with pytest.raises(ValueError, match=r"log_probs: expected \[frames, columns\], as they were decoded, got \(4,\)"):
        found.plot(rows(SAID)[0])
    with pytest.raises(ValueError, match="start, end: expected a stretch of the 12 frames, got 5 to 5"):
        found.plot(rows(SAID), start=5, end=5)
    with pytest.raises(ValueError, match="log_probs: expected the 12 frames that were decoded, or more, got 4"):
        found.plot(rows(SAID)[:4])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match="pip install matplotlib"):
        found.plot(rows(SAID))
