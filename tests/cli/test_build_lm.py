"""``arcbeam build-lm``: a model from its ARPA, and what is wrong with bad ones."""

import lzma

import pytest

from arcbeam import LanguageModel
from tests.lm.test_lm_automaton import GOOD


def test_builds_what_can_be_loaded(run, tmp_path):
    (tmp_path / "lm.arpa.xz").write_bytes(lzma.compress(GOOD.encode()))
    result = run("build-lm", tmp_path / "lm.arpa.xz", "-o", tmp_path / "out.lm")
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    assert f"wrote {tmp_path / 'out.lm'}: 3-gram, 3 words, 5 states, 8 arcs" in result.stderr
    assert "read: 5 / 3 / 1 n-grams" in result.stderr
    assert "note: after 5 histories the probabilities do not sum to 1" in result.stderr
    assert "UserWarning" not in result.stderr
    assert LanguageModel.load(tmp_path / "out.lm").order == 3


def test_the_arpa_is_not_replaced(run, tmp_path):
    (tmp_path / "lm.arpa").write_text("what took days to make\n")
    (tmp_path / "link").symlink_to(tmp_path / "lm.arpa")
    for output in ("lm.arpa", "link"):
        result = run("build-lm", tmp_path / "lm.arpa", "-o", tmp_path / output)
        assert result.exit_code == 1
        assert "is one of the files to read; name another file" in result.stderr
    assert (tmp_path / "lm.arpa").read_text() == "what took days to make\n"


def test_errors_are_one_line(run, tmp_path):
    (tmp_path / "bad.arpa").write_text("hello\n")
    for source, output, message in [
        ("bad.arpa", "out", "bad.arpa, line 1: expected \\data\\"),
        ("gone.arpa", "out", "gone.arpa: No such file"),
        ("bad.arpa", "no/out", "the folder does not exist"),
    ]:
        result = run("build-lm", tmp_path / source, "-o", tmp_path / output)
        assert result.exit_code == 1
        assert message in result.stderr.splitlines()[-1]
        assert result.stderr.splitlines()[-1].startswith("error: ")
        assert not (tmp_path / output).exists()


@pytest.mark.parametrize("name", ["out.arpa", "out.fst"])
def test_a_name_of_another_format(run, name):
    result = run("build-lm", "in.arpa", "-o", name)
    said = " ".join(result.stderr.replace("│", " ").split())
    assert result.exit_code == 2
    assert f"'--output': writes a language model of arcbeam, and {name} is a name of another" in said
    assert "type --output out.lm" in said


def test_a_file_of_another_kind_is_not_replaced(run, files, tmp_path):
    (tmp_path / "lm.arpa").write_text(GOOD)
    (tmp_path / "graph.arcbeam").write_bytes((files / "graph.arc").read_bytes())
    result = run("build-lm", tmp_path / "lm.arpa", "-o", tmp_path / "graph.arcbeam")
    assert result.exit_code == 1
    assert "expected a new file or a language model of arcbeam" in " ".join(result.stderr.split())
    assert (tmp_path / "graph.arcbeam").read_bytes() == (files / "graph.arc").read_bytes()
    for _ in range(2):  # one of its own kind is
        assert run("build-lm", tmp_path / "lm.arpa", "-o", tmp_path / "out.lm").exit_code == 0
