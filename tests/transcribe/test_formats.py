"""What is written of a transcript, read back by independent readers where they are installed."""

import dataclasses
import json
import re
from itertools import pairwise

import pytest

import arcbeam
from arcbeam.words import Word


def word(text, start, end, confidence=None):
    return Word(text, round(start / 0.02), round(end / 0.02), start, end, confidence)


FIRST = (word("it", 0.5, 0.64, 0.9876), word("is", 0.7, 0.9, 1.0), word('"said"', 1.0, 1.5, 0.25))
SECOND = (word("a<b", 3605.04, 3605.5), word("&", 3605.5, 3605.6), word("\u00e9\u4e2d -->", 3605.7, 3606.0))
SEGMENTS = (
    arcbeam.Segment(0.5, 1.5, 'it is "said"', FIRST),
    arcbeam.Segment(3605.04, 3606.0, "a<b & \u00e9\u4e2d -->", SECOND, False),
)
TALK = arcbeam.Transcript("my talk", 3607.5, SEGMENTS, "talks/my talk.wav", 44_100, 2, "mean")
NOTHING = arcbeam.Transcript("silence", 2.0, ())


def test_text():
    assert TALK.render("text") == 'it is "said"\na<b & \u00e9\u4e2d -->\n'
    assert NOTHING.render("text") == ""


def test_json():
    (line,) = TALK.render("json").splitlines()
    read = json.loads(line)
    assert (read["id"], read["path"], read["duration"]) == ("my talk", "talks/my talk.wav", 3607.5)
    assert (read["sample_rate"], read["channels"], read["channel"]) == (44_100, 2, "mean")
    assert read["text"] == TALK.text and [one["text"] for one in read["segments"]] == [one.text for one in SEGMENTS]
    assert read["segments"][0]["words"][0] == {
        "word": "it", "start_frame": 25, "end_frame": 32, "start": 0.5, "end": 0.64, "confidence": 0.9876,
    }  # fmt: skip
    assert [one["complete"] for one in read["segments"]] == [True, False]
    assert json.loads(NOTHING.render("json"))["segments"] == []


def test_ctm():
    assert dataclasses.replace(TALK, id="my_talk").render("ctm").splitlines() == [
        "my_talk 1 0.500 0.140 it 0.988", "my_talk 1 0.700 0.200 is 1.000", 'my_talk 1 1.000 0.500 "said" 0.250',
        "my_talk 1 3605.040 0.460 a<b", "my_talk 1 3605.500 0.100 &", "my_talk 1 3605.700 0.300 \u00e9\u4e2d_-->",
    ]  # fmt: skip
    assert NOTHING.render("ctm") == ""
    with pytest.raises(ValueError, match="expected an id without spaces for 'ctm', got 'my talk'; use 'json', or"):
        TALK.render("ctm")


def test_srt_by_hand():
    assert TALK.render("srt") == (
        '1\n00:00:00,500 --> 00:00:01,500\nit is "said"\n\n2\n01:00:05,040 --> 01:00:06,040\na<b & \u00e9\u4e2d -->\n'
    )
    assert NOTHING.render("srt") == ""


def test_vtt_by_hand():
    assert TALK.render("vtt") == (
        'WEBVTT\n\n00:00:00.500 --> 00:00:01.500\nit is "said"\n\n'
        "01:00:05.040 --> 01:00:06.040\na&lt;b &amp; \u00e9\u4e2d --&gt;\n"
    )
    assert NOTHING.render("vtt") == "WEBVTT\n"


def test_subtitles_have_the_lines_that_were_asked_for():
    rules = arcbeam.SubtitleRules(lines=1, line_chars=5)
    assert re.findall(r"^[a-z\"].*$", TALK.render("srt", rules), re.MULTILINE) == ["it is", '"said"', "a<b &"]


def test_srt_by_another_reader():
    srt = pytest.importorskip("srt", reason="srt is not installed: .[test]")
    read = [*srt.parse(TALK.render("srt"))]
    assert [(one.index, one.start.total_seconds(), one.end.total_seconds(), one.content) for one in read] == [
        (1, 0.5, 1.5, SEGMENTS[0].text), (2, 3605.04, 3606.04, SEGMENTS[1].text),
    ]  # fmt: skip


def test_vtt_by_another_reader(tmp_path):
    webvtt = pytest.importorskip("webvtt", reason="webvtt-py is not installed: .[test]")
    (tmp_path / "talk.vtt").write_text(TALK.render("vtt"), encoding="utf-8")
    read = webvtt.read(str(tmp_path / "talk.vtt"))
    assert [(one.start, one.end) for one in read] == [
        ("00:00:00.500", "00:00:01.500"), ("01:00:05.040", "01:00:06.040"),
    ]  # fmt: skip
    assert [one.text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") for one in read] == [
        one.text for one in SEGMENTS
    ]
    (tmp_path / "none.vtt").write_text(NOTHING.render("vtt"))
    assert len(webvtt.read(str(tmp_path / "none.vtt"))) == 0


def intervals(text, tier):
    """The intervals of a tier, empty ones included, by Praat's rules for text in quotation marks."""
    block = text.split(f'name = "{tier}"')[1].split("item [")[0]
    found = re.findall(r'xmin = ([\d.]+)\s+xmax = ([\d.]+)\s+text = "((?:[^"]|"")*)"', block)
    return [(float(start), float(end), said.replace('""', '"')) for start, end, said in found]


def test_textgrid_by_hand():
    text = TALK.render("textgrid")
    assert text.startswith('File type = "ooTextFile"\nObject class = "TextGrid"\n\nxmin = 0\nxmax = 3607.5\n')
    assert intervals(text, "sentences") == [
        (0, 0.5, ""), (0.5, 1.5, 'it is "said"'), (1.5, 3605.04, ""), (3605.04, 3606, SEGMENTS[1].text),
        (3606, 3607.5, ""),
    ]  # fmt: skip
    words = intervals(text, "words")
    assert [said for *_, said in words if said] == [one.word for one in TALK.words]
    assert all(before[1] == after[0] for before, after in pairwise(words))
    assert intervals(NOTHING.render("textgrid"), "words") == [(0, 2, "")]


def test_textgrid_by_another_reader(tmp_path):
    textgrid = pytest.importorskip("praatio.textgrid", reason="praatio is not installed: .[test]")
    (tmp_path / "talk.TextGrid").write_text(TALK.render("textgrid"), encoding="utf-8")
    read = textgrid.openTextgrid(str(tmp_path / "talk.TextGrid"), includeEmptyIntervals=False)
    assert read.tierNames == ("sentences", "words") and read.maxTimestamp == 3607.5
    assert [tuple(one) for one in read.getTier("words").entries] == [(w.start, w.end, w.word) for w in TALK.words]


def test_words_of_a_transducer_on_one_frame_share_it():
    same = (*(word(text, 0.0, 0.08) for text in "abc"), word("d", 0.08, 0.16))
    overlapping = arcbeam.Transcript("t", 1.0, (arcbeam.Segment(0.0, 0.16, "a b c d", same),))
    found = intervals(overlapping.render("textgrid"), "words")
    assert [said for *_, said in found] == ["a", "b", "c", "d", ""]
    assert all(start < end for start, end, _ in found) and found[3][:2] == (0.08, 0.16)


def test_formats_that_are_none():
    with pytest.raises(ValueError, match=r"^format: expected one of text, json, ctm, srt, vtt, textgrid, got 'docx'$"):
        TALK.render("docx")
    with pytest.raises(TypeError, match=r"^subtitles: expected arcbeam.SubtitleRules, got dict$"):
        TALK.render("srt", {"lines": 2})
