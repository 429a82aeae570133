"""Results are read as commands and Python give them, and what is wrong with a line is said with its place."""

import json

import pytest

import arcbeam
from arcbeam.core.errors import FormatError
from arcbeam.report.results import read_results
from tests.transcribe import tones

WORDS = [
    {"word": "new york", "start": 0.2, "end": 0.5, "start_frame": 10, "end_frame": 25, "confidence": 0.5},
    {"word": "here", "start": None, "end": None, "start_frame": 30, "end_frame": 40},
]


def lines(tmp_path, *objects):
    path = tmp_path / "h.jsonl"
    path.write_text("\n\n".join(one if isinstance(one, str) else json.dumps(one) for one in objects), encoding="utf-8")
    return path


def test_a_word_with_a_space_is_two_words_of_the_text(tmp_path):
    nbest = [{"text": "new  york here", "score": -1, "posterior": 0.75, "words": []}]
    [found] = read_results(lines(tmp_path, {"id": "a", "text": "new york here", "words": WORDS, "nbest": nbest}))
    assert found["times"] == [[0.2, 0.5], [0.2, 0.5], [None, None]] and found["confidences"] == [0.5, 0.5, None]
    assert found["frame_shift"] == pytest.approx(0.02)
    assert found["nbest"] == [{"text": "new york here", "score": -1.0, "posterior": 0.75}]


def test_the_words_of_a_recording_are_those_of_its_segments(tmp_path):
    """As arcbeam transcribe writes them."""
    first = {"word": "one", "start": 0.2, "end": 0.5, "start_frame": 10, "end_frame": 25, "confidence": 0.5}
    second = {"word": "two", "start": 3.0, "end": 3.5, "start_frame": 150, "end_frame": 175}
    segments = [{"start": 0.2, "text": "one", "words": [first]}, {"text": "two", "words": [second]}]
    [found] = read_results(lines(tmp_path, {"id": "a", "text": "one two", "segments": segments}))
    assert found["times"] == [[0.2, 0.5], [3.0, 3.5]] and found["confidences"] == [0.5, None]
    transcript = arcbeam.Transcriber(tones.ToneModel()).transcribe(tones.recording(["ab cde", "d"]))
    [found] = read_results([transcript.to_dict()])
    assert found["times"] == [[word.start, word.end] for word in transcript.words] and len(found["times"]) == 3
    assert found["text"] == "ab cde d" and found["frame_shift"] == pytest.approx(
        transcript.words[0].end / transcript.words[0].end_frame
    )
    with pytest.raises(FormatError, match=r"h.jsonl:1: segments\[1\]: words\[0\]: word: expected a string, got 3"):
        read_results(lines(tmp_path, {"id": "a", "text": "", "segments": [{"words": []}, {"words": [{"word": 3}]}]}))


def test_objects_of_python_and_lines_are_read_alike(tmp_path):
    objects = [{"id": "a", "text": "x", "score": -2, "frames": 7}, {"id": "b", "text": "", "words": []}]
    assert read_results(objects) == read_results(lines(tmp_path, *objects))
    for score in (-float("inf"), 10**400):
        assert read_results([{"id": "a", "text": "x", "score": score}])[0]["score"] is None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "h.jsonl:3: expected a line of arcbeam decode --format json, transduce, align or transcribe, got '{'"),
        ("[" * 100_000, "h.jsonl:3: expected a line of"),
        ("3", "h.jsonl:3: expected a line of arcbeam decode --format json, transduce, align or transcribe, got 3"),
        ({"id": "b", "is_final": True}, "h.jsonl:3: expected .* got a result of a stream; decode whole utterances"),
        ({"id": 3, "text": ""}, "h.jsonl:3: id: expected a string, got 3"),
        ({"id": "b"}, "h.jsonl:3: text: expected a string, got nothing"),
        ({"id": "a", "text": ""}, "h.jsonl:3: the utterance id 'a' occurs twice"),
        ({"id": "b", "text": "x", "words": {}}, "h.jsonl:3: words: expected a list of objects, got {}"),
        ({"id": "b", "text": "x", "words": WORDS}, "as many words in `words` as in `text`, which has 1, got 3; change"),
        ({"id": "b", "text": "x", "nbest": [{"text": None}]}, r"nbest\[0\]: text: expected a string, got None"),
        ({"id": "b", "text": "x", "confidence": 1.5}, "confidence: expected a number from 0 to 1, or null, got 1.5"),
        ('{"id": "b", "text": "x", "confidence": NaN}', "confidence: expected a number from 0 to 1, or null, got nan"),
        ({"id": "b", "text": "x", "score": True}, "score: expected a number or null, got True"),
    ],
)
def test_a_bad_line(line, message, tmp_path):
    with pytest.raises(FormatError, match=message):
        read_results(lines(tmp_path, {"id": "a", "text": "x"}, line))


def test_no_results(tmp_path):
    with pytest.raises(FormatError, match=r"h.jsonl: expected results, one object for each utterance, got none"):
        read_results(lines(tmp_path))
    with pytest.raises(FormatError, match="expected text in UTF-8, got an array of NumPy"):
        (tmp_path / "h.npy").write_bytes(b"\x93NUMPY\xff")
        read_results(tmp_path / "h.npy")
    with pytest.raises(TypeError, match=r"hypotheses: expected a file of JSON lines, or a list of objects .* got dict"):
        arcbeam.write_report(tmp_path / "r.html", {"a": "x"})
