"""No command replaces a file that it reads."""

import shutil

import pytest


@pytest.fixture
def folder(files, tmp_path, monkeypatch, run):
    """A copy of the small files, whose loss does no harm; the commands run in it."""
    (tmp_path / "copy").mkdir()
    for name in ("graph.arc", "in.npz", "reference.tsv", "tokens.txt"):
        shutil.copy(files / name, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    (tmp_path / "copy" / "boost.txt").write_text("ah\t2\n")
    return tmp_path / "copy"


DECODE = ("decode", "graph.arc", "in.npz", "--boost", "boost.txt", "--reference", "reference.tsv")


@pytest.mark.parametrize(
    ("command", "option", "output"),
    [
        *((DECODE, "--output", name) for name in ("in.npz", "graph.arc", "boost.txt", "reference.tsv", "link")),
        (("decode", "graph.arc", "ark:in.npz"), "--output", "in.npz"),
        ((*DECODE, "-o", "out"), "--lattice", "in.npz"),
        ((*DECODE, "-o", "out"), "--lattice", "ark,t:graph.arc"),
        ((*DECODE, "-o", "out"), "--lattice", "ark,scp:out.ark,reference.tsv"),
        (("decode", "graph.arc", "."), "--output", "./in.npz"),
        (("greedy", "in.npz", "--tokens", "tokens.txt"), "--output", "tokens.txt"),
        (("stream", "graph.arc", "in.npz"), "--output", "in.npz"),
        (("transduce", "in.npz", "in.npz"), "--output", "in.npz"),
        (("tune", "graph.arc", "in.npz", "--reference", "reference.tsv"), "--output", "in.npz"),
        (("tune", "graph.arc", "in.npz", "--reference", "reference.tsv"), "--plot", "reference.tsv"),
        (("build-graph", "--tokens", "tokens.txt", "--lm", "lm", "--lm-words"), "--output", "tokens.txt"),
    ],
)
def test_a_file_that_is_read_is_not_replaced(run, folder, command, option, output):
    (folder / "link").symlink_to(folder / "in.npz")
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    result = run(*command, option, output)
    assert result.exit_code == 1
    assert f"error: {option}: " in result.stderr
    assert "is one of the files to read" in result.stderr
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_the_tables_of_an_openfst_file_do_not_replace_the_tokens(run, folder):
    (folder / "tokens.txt").rename(folder / "TLG.tokens.txt")
    result = run(
        "build-graph", "--tokens", "TLG.tokens.txt", "--lm", "lm", "--lm-words", "-o", "out", "--openfst", "TLG.fst"
    )
    assert result.exit_code == 1
    assert "--openfst: TLG.tokens.txt is one of the files to read" in result.stderr


def test_other_files_are_replaced(run, folder):
    """A file whose name is that of a format, and one in the folder of the inputs that is no input."""
    for name, inputs in [("text", "in.npz"), ("out.txt", ".")]:
        (folder / name).write_text("old")
        result = run("decode", "graph.arc", inputs, "--format", "text", "-o", name)
        assert result.exit_code == 0, result.stderr
        assert (folder / name).read_text() != "old"


@pytest.mark.parametrize(
    "command",
    [
        ("decode", "graph.arc", "in.npz", "-o", "new/"),
        ("decode", "graph.arc", "in.npz", "-o", "out", "--lattice", "new/"),
        ("build-graph", "--tokens", "tokens.txt", "--lm", "lm", "--lm-words", "-o", "new/"),
        ("build-lm", "lm", "-o", "new/"),
        ("tune", "graph.arc", "in.npz", "--reference", "reference.tsv", "-o", "new/"),
    ],
)
def test_a_slash_at_the_end_is_the_name_of_a_folder(run, folder, command):
    result = run(*command)
    assert result.exit_code in (1, 2)
    assert "expected" in result.stderr
    assert "folder" in result.stderr
    assert ".partial" not in result.stderr
    assert not (folder / "new").exists()
