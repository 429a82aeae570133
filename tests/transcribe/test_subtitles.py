"""Subtitles of words: no word is lost, lines have room, times follow each other, and breaks are at pauses and marks."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import arcbeam
from arcbeam.transcribe.subtitles import GAP, break_lines, make_subtitles
from arcbeam.words import Word

RULES = arcbeam.SubtitleRules()


def timed(*words):
    return [Word(text, 0, 1, start, end) for text, start, end in words]


def said(text, start=0.0, seconds=0.3, pause=0.05):
    found = []
    for word in text.split():
        found.append((word, start, start + seconds))
        start += seconds + pause
    return timed(*found)


@st.composite
def speech(draw):
    """Sentences of words with rests between them."""
    at, sentences = draw(st.floats(0, 5)), []
    for _ in range(draw(st.integers(1, 4))):
        words = []
        for _ in range(draw(st.integers(1, 25))):
            text = draw(st.text("abcd,.", min_size=1, max_size=draw(st.sampled_from([4, 12, 50]))))
            end = at + draw(st.sampled_from([0.02, 0.2, 0.5, 9.0]))
            words.append((text, at, end))
            at = end + draw(st.sampled_from([0.0, 0.0, 0.1, 0.6, 4.0]))
        sentences.append(timed(*words))
    return sentences


@given(
    speech(),
    st.builds(
        arcbeam.SubtitleRules,
        lines=st.integers(1, 3),
        line_chars=st.integers(10, 45),
        min_seconds=st.sampled_from([0.0, 1.0]),
        max_seconds=st.sampled_from([2.0, 7.0]),
    ),
)
def test_what_always_holds(sentences, rules):
    found = make_subtitles(sentences, rules)
    words = [word for sentence in sentences for word in sentence]
    assert " ".join(line for one in found for line in one.lines).split() == [word.word for word in words]
    for one in found:
        assert 1 <= len(one.lines) <= rules.lines
        assert all(len(line) <= rules.line_chars or " " not in line for line in one.lines)
        assert one.start <= one.end <= one.start + rules.max_seconds + 1e-9
    for one, following in pairwise(found):
        assert one.end <= following.start
    starts = {word.start for word in words}
    assert {one.start for one in found} <= starts


def texts(sentences, **rules):
    return [" / ".join(one.lines) for one in make_subtitles(sentences, arcbeam.SubtitleRules(**rules))]


def test_the_end_is_at_a_pause_or_a_mark():
    long = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
    words = said(long)
    later = [word._replace(start=word.start + 0.7, end=word.end + 0.7) for word in words[7:]]
    assert texts([words[:7] + later]) == [
        "one two three four five six seven", "eight nine ten eleven twelve / thirteen fourteen fifteen sixteen",
    ]  # fmt: skip
    assert texts([said(long.replace("six ", "six, "))])[0].endswith("six,")
    assert texts([said(long.replace("nine", "nine."))])[0].replace(" / ", " ").endswith("nine.")


def test_two_sentences_may_share_a_subtitle_but_do_not_without_need():
    assert texts([said("yes of course"), said("no never at all", start=5.0)]) == ["yes of course", "no never at all"]


def test_short_subtitles_stay():
    [one] = make_subtitles([timed(("yes", 1.0, 1.2))], RULES)
    assert (one.start, one.end) == (1.0, 2.0)
    [one] = make_subtitles([timed(("x" * 40, 1.0, 1.2))], RULES)
    assert (one.start, one.end) == (1.0, 3.0)  # 20 characters a second
    first, _ = make_subtitles([timed(("yes.", 1.0, 1.2)), said("and so on and on and on", start=1.9)], RULES)
    assert first.end == pytest.approx(1.9 - GAP)


def test_long_subtitles_end():
    assert [(one.start, one.end) for one in make_subtitles([timed(("hm", 1.0, 20.0))], RULES)] == [(1.0, 8.0)]
    slow = make_subtitles([said("one two three four", seconds=2.0)], RULES)
    assert len(slow) == 2 and all(one.end - one.start <= 7.0 for one in slow)


def test_lines():
    def lines(text, **rules):
        return break_lines(text.split(), arcbeam.SubtitleRules(**rules))

    assert lines("a short one") == ("a short one",)
    assert lines("it is a truth universally acknowledged, that a single man") == (
        "it is a truth universally acknowledged,", "that a single man",
    )  # fmt: skip
    assert lines("aaaa bbbb cccc dddd", line_chars=10) == ("aaaa bbbb", "cccc dddd")
    assert lines("aaaa bbbb cccc dddd eeee", line_chars=10) is None
    assert lines("aaaa bbbb cccc dddd eeee", line_chars=10, lines=3) == ("aaaa", "bbbb cccc", "dddd eeee")
    assert lines("x" * 60) == ("x" * 60,) and lines("x" * 60 + " b") == ("x" * 60, "b")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lines": 0}, "lines: expected a whole number of at least 1, got 0"),
        ({"line_chars": 2.5}, "line_chars: expected a whole number of at least 1, got float"),
        ({"min_seconds": 8.0}, "min_seconds: expected at most max_seconds=7, got 8"),
        ({"max_seconds": 0}, "max_seconds: expected a number of seconds above 0, got 0"),
        ({"chars_per_second": float("nan")}, "chars_per_second: expected a number above 0, got nan"),
    ],
)
def test_rules_that_do_not_fit(options, message):
    with pytest.raises((TypeError, ValueError), match=f"^{message}"):
        arcbeam.SubtitleRules(**options)
