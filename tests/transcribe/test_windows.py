"""Windows of long audio: together they keep each frame once, whatever pieces the samples arrive in."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import arcbeam
from arcbeam.transcribe.windows import Plan, Window, Windower, frames_of, kept_rows, samples_of_a_frame

FRAME = 4


def windows_of(plan, samples, cuts):
    windower, found = Windower(plan, FRAME), []
    for piece in np.split(samples, cuts):
        found += windower.add(piece)
        held = windower._held
        assert held <= 2 * plan.width * FRAME + len(piece)
    return [*found, *windower.finish()]


def plans():
    overlap = st.integers(0, 6)
    files = st.builds(lambda o, more: Plan.of_files(2 * o + more, o), overlap, st.integers(1, 9))
    live = st.builds(lambda s, a, more: Plan.of_live_audio(s + a + more, s, a), *[st.integers(1, 5)] * 3)
    return files | live


@given(plans(), st.integers(1, 300), st.data())
def test_each_frame_is_kept_once(plan, count, data):
    samples = np.arange(count, dtype=np.float32)
    cuts = sorted(data.draw(st.lists(st.integers(0, count), max_size=6)))
    found = windows_of(plan, samples, cuts)
    kept = []
    for window in found:
        assert len(window.samples) <= plan.width * FRAME
        assert window.samples[0] == window.begin * FRAME  # on the frame grid
        frames = -(-len(window.samples) // FRAME)
        rows = np.arange(window.begin, window.begin + frames)[:, None]
        kept += kept_rows(rows, window, FRAME)[:, 0].tolist()
        if window.end is not None:
            assert frames - (window.end - window.begin) == plan.ahead
    assert kept == list(range(-(-count // FRAME)))
    assert [window.end is None for window in found] == [False] * (len(found) - 1) + [True]
    whole = windows_of(plan, samples, [])
    assert [(w.begin, w.kept, w.end, w.samples.tolist()) for w in whole] == [
        (w.begin, w.kept, w.end, w.samples.tolist()) for w in found
    ]


def test_windows_by_hand():
    found = windows_of(Plan.of_files(10, 4), np.zeros(FRAME * 23 - 1, np.float32), [])
    assert [(w.begin, w.kept, w.end, len(w.samples)) for w in found] == [
        (0, 0, 8, 40), (6, 8, 14, 40), (12, 14, 20, 40), (13, 20, None, 39),
    ]  # fmt: skip
    found = windows_of(Plan.of_live_audio(10, 2, 1), np.zeros(FRAME * 12, np.float32), [])
    assert [(w.begin, w.kept, w.end) for w in found] == [
        (0, 0, 2), (0, 2, 4), (0, 4, 6), (0, 6, 8), (1, 8, 10), (2, 10, None),
    ]  # fmt: skip


def test_a_recording_that_is_not_longer_than_a_window_is_one():
    for count in (1, FRAME * 10):
        (found,) = windows_of(Plan.of_files(10, 4), np.ones(count, np.float32), [])
        assert (found.begin, found.kept, found.end, len(found.samples)) == (0, 0, None, count)
    assert windows_of(Plan.of_files(10, 4), np.empty(0, np.float32), []) == []


def test_a_window_that_could_not_be_decoded_comes_again():
    windower = Windower(Plan.of_files(10, 4), FRAME)
    first = next(windower.add(np.arange(FRAME * 11, dtype=np.float32)))
    again = next(windower.add(np.empty(0, np.float32)))
    assert (first.begin, first.kept, first.end) == (again.begin, again.kept, again.end)
    assert first.samples.tolist() == again.samples.tolist()


def test_a_model_with_other_frames_is_refused():
    window = Window(np.zeros(400, np.float32), 0, 0, 98)
    assert len(kept_rows(np.zeros((98, 2)), window, 4)) == 98
    with pytest.raises(arcbeam.InputError, match=r"expected at least 98 frames of a window, got 97 .* longer overlap"):
        kept_rows(np.zeros((97, 2)), window, 4)
    with pytest.raises(arcbeam.InputError, match=r"about 100 frames of 400 samples, .* has 4, got 50 from"):
        kept_rows(np.zeros((50, 2)), window, 4)


def test_samples_of_a_frame():
    assert samples_of_a_frame(0.02, 16_000) == 320 and samples_of_a_frame(0.08, 16_000) == 1280
    assert frames_of(30.0, 0.02) == 1500 and frames_of(0.3, 0.1) == 3
    with pytest.raises(ValueError, match=r"^frame_shift: expected a whole number of samples .* got 0.0233 s at 16,000"):
        samples_of_a_frame(0.0233, 16_000)
