"""Reference files: each kind, and what is wrong with a bad one."""

import pytest

from arcbeam.core.errors import FormatError
from arcbeam.report.references import read_references

EXPECTED = {"a-1": "the cat", "a-2": "", "b": "don't stop"}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("r.tsv", "a-1\tthe cat\na-2\t\nb\tdon't  stop\n"),
        ("bom.tsv", "\ufeffa-1\tthe cat\r\na-2\t\r\nb\tdon't stop\r\n"),
        ("r.trn", "the cat (a-1)\n(a-2)\n\ndon't stop (b)\n"),
        ("text", "a-1 the cat\na-2\nb don't stop\n"),
        ("84-1.trans.txt", "a-1 the cat\na-2 \nb don't stop"),
        (
            "m.json",
            '{"audio_filepath": "x/a-1.wav", "duration": 1, "text": "the cat"}\n'
            '{"audio_filepath": "a-2.flac", "text": ""}\n\n{"id": "b", "audio_filepath": "c", "text": "don\'t  stop"}',
        ),
        ("m.jsonl", "".join(f'{{"id": "{name}", "text": "{text}"}}\n' for name, text in EXPECTED.items())),
        ("tabs.txt", "a-1\tthe cat\na-2\nb\tdon't stop"),
    ],
)
def test_kinds(name, content, tmp_path):
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert read_references([tmp_path / name]) == EXPECTED


def test_folder_of_librispeech(tmp_path):
    for chapter in ("1/2", "3/4"):
        (tmp_path / chapter).mkdir(parents=True)
        dashed = chapter.replace("/", "-")
        (tmp_path / chapter / f"{dashed}.trans.txt").write_text(f"{dashed}-0000 HELLO\n")
    assert read_references([tmp_path]) == {"1-2-0000": "HELLO", "3-4-0000": "HELLO"}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("r.tsv", b"a\tx\nb x\n", r"r.tsv:2: expected 'id<TAB>transcript', got 'b x'"),
        ("r.tsv", b"\tx\n", "r.tsv:1: expected"),
        ("r.trn", b"x (a)\nno id\n", r"r.trn:2: expected 'transcript \(id\)'"),
        (
            "m.jsonl",
            b'{"id": "a", "text": "x"}\n{"id": "b"}\n',
            'm.jsonl:2: expected an object a line with "text", and "id',
        ),
        ("m.json", b'[{"id": "a", "text": "x"}]', r"m.json:1: expected an object a line .*, got '\[{"),
        ("m.json", b'{"text": "x", "audio_filepath": 3}', "m.json:1: expected an object a line"),
        ("text", b"a x\na y\n", "text:2: the utterance id 'a' occurs twice"),
        ("text", b"a \xff\n", "expected text in UTF-8"),
        ("text", b"\n", "no reference transcript found"),
        (
            "r.stm",
            b"a 1 a 0.00 1.50 the cat\nb 1 b 1.5 3.25 sat\n",
            "expected lines 'id transcript', got STM or CTM, such as",
        ),
        (
            "r.ctm",
            b"a 1 0.00 0.30 the\na 1 0.3 0.25 cat\n",
            "got STM or CTM, such as 'a 1 0.00 0.30 the'; write the ids",
        ),
        ("r.tsv", "a\tx".encode("utf-16"), "got text in UTF-16, which a text editor can save as UTF-8"),
    ],
)
def test_bad(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FormatError, match=message):
        read_references([tmp_path / name])


def test_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_references([tmp_path / "gone.tsv"])
    with pytest.raises(FormatError, match=r"expected a folder with \*\.trans\.txt, got none; name files of other"):
        read_references([tmp_path])


def test_words_that_look_like_times_are_words_where_others_do_not(tmp_path):
    (tmp_path / "text").write_text("a 1 2.5 3.5 both\nb all\n")
    assert read_references([tmp_path / "text"]) == {"a": "1 2.5 3.5 both", "b": "all"}
