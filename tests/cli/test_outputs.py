"""Formats of transcripts, on hypotheses made by hand."""

import io
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from arcbeam.cli.outputs import Format, open_output, write
from arcbeam.core.errors import FormatError
from arcbeam.files.log_probs import Utterance
from arcbeam.words import Word


def hypothesis(text, words, **values):
    fields = {"text": text, "words": [word._asdict() for word in words], **values}
    fields |= {"error": None, "tokens": [1], "word_ids": [2], "arcs": [3]}
    return SimpleNamespace(text=text, words=words, to_dict=lambda: fields)


WORDS = [Word("he", 1, 5, 0.02, 0.1), Word("was", 6, 15, 0.12, 6 * 0.05)]
HYPOTHESIS = hypothesis(
    "he was", WORDS, score=3.5, partial_score=3.5, acoustic_score=1.0, graph_score=2.25, rescoring_score=0.25000000001,
    reached_final=True, complete=True,
)  # fmt: skip
NOTHING = hypothesis("", [], score=None, partial_score=-1.25, reached_final=False, complete=False)


def utterance(name):
    return Utterance(name, np.zeros((20, 3), np.float32), Path("x.npz"))


def written(format, hypothesis, name="utt"):
    file = io.StringIO()
    write(file, format, utterance(name), hypothesis)
    return file.getvalue()


def test_json():
    assert json.loads(written(Format.json, HYPOTHESIS)) == {
        "id": "utt", "text": "he was", "score": 3.5, "partial_score": 3.5, "acoustic_score": 1.0, "graph_score": 2.25,
        "rescoring_score": 0.25, "reached_final": True, "complete": True,
        "frames": 20, "words": [WORDS[0]._asdict(), WORDS[1]._asdict() | {"end": 0.3}],
    }  # fmt: skip
    found = json.loads(written(Format.json, NOTHING))
    assert (found["score"], found["partial_score"], found["complete"]) == (None, -1.25, False)


@pytest.mark.parametrize(
    "command",
    [
        ("decode", "graph.arc", "in.npz"),
        ("greedy", "in.npz", "--tokens", "tokens.txt", "--separator", "none"),
        ("stream", "graph.arc", "in.npz"),
        ("transduce", "m.nemo", "in.npz"),
    ],
    ids=lambda command: command[0],
)
@pytest.mark.parametrize(
    ("name", "options", "kind"),
    [
        ("said.json", (), "json"),
        ("said.JSONL", (), "json"),
        ("said.ndjson", (), "json"),
        ("said.ctm", (), "ctm"),
        ("said.stm", (), "stm"),
        ("said.trn", (), "trn"),
        ("said.txt", (), None),
        ("said.json", ("--format", "text"), None),
        ("said.json", ("--format", "json"), None),
        ("said.txt", ("--format", "json"), None),
    ],
)
def test_a_name_of_another_format(run, tmp_path, command, name, options, kind):
    result = run(*command, "--output", tmp_path / name, *options)
    said = " ".join(result.stderr.replace("│", " ").split())
    if kind is None:
        assert "is a name of" not in said
        assert command[0] == "transduce" or (result.exit_code == 0 and (tmp_path / name).read_text())
    else:
        assert result.exit_code == 2 and not (tmp_path / name).exists()
        assert "'--output': the format is text, and" in said
        assert f"a name of {kind} files; type --format {kind}, or --format text for text in a file of this" in said


@pytest.mark.parametrize("name", ["two words", "line\nfeed", ""])
def test_ids_with_spaces_only_fit_json(name):
    for format in (Format.text, Format.trn, Format.ctm):
        with pytest.raises(FormatError, match="use --format json"):
            written(format, HYPOTHESIS, name)
    assert json.loads(written(Format.json, HYPOTHESIS, name))["id"] == name


def test_words_that_hold_the_end_of_a_line():
    """As bytes of a transducer's pieces may; JSON has them as they are."""
    said = hypothesis("he\nwas  it", [Word("he\nwas", 1, 5, 0.0, 0.5), Word("\t", 6, 7, 0.5, 1.0)])
    assert written(Format.text, said) == "utt he was it\n"
    assert written(Format.trn, said) == "he was it (utt)\n"
    assert [line.split(" ")[4] for line in written(Format.ctm, said).splitlines()] == ["he_was", "_"]
    assert json.loads(written(Format.json, said))["text"] == said.text


def test_files_are_utf8(tmp_path):
    with open_output(str(tmp_path / "o")) as file:
        file.write("naïve ▁\n")
    assert (tmp_path / "o").read_bytes() == "naïve ▁\n".encode()
