"""A small vocabulary that the command line can decode: three words of one token each."""

import numpy as np
import pytest
from typer.testing import CliRunner

import arcbeam
from arcbeam.cli.app import app

TOKENS = ["<blank>", "a", "b", "c"]
WORDS = ["<eps>", "ah", "bee", "sea"]


def arcs_of_a_word_loop():
    """One state after blank, one after each token; a token leads from every state but its own to its own."""
    yield 0, 0, 1, 0, 0.0
    for token in (1, 2, 3):
        for source in range(4):
            if source == token:
                yield source, token, token + 1, 0, 0.0
                yield source, 0, 1, 0, 0.0
            else:
                yield source, token, token + 1, token, 0.5


def log_probs_of(columns):
    """[frames, columns] that say these columns clearly."""
    values = np.full((len(columns), len(TOKENS)), np.log(0.01), np.float32)
    values[np.arange(len(columns)), columns] = np.log(0.97)
    return values


#: One digit a frame, a column each.
SPOKEN = {"one": "0110022", "two": "33303330", "three": "0000"}
SAID = {"one": "ah bee", "two": "sea sea", "three": ""}


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """Folder with graph.arc, in.npz, reference.tsv, words.txt and tokens.txt."""
    folder = tmp_path_factory.mktemp("small")
    graph = arcbeam.Graph.from_arcs(
        list(arcs_of_a_word_loop()),
        finals=dict.fromkeys(range(4), 0.0),
        tokens=arcbeam.TokenTable.from_list(TOKENS),
        word_symbols=arcbeam.SymbolTable.from_list(WORDS),
    )
    graph.save(folder / "graph.arc")
    np.savez(folder / "in.npz", **{k: log_probs_of([int(c) for c in v]) for k, v in SPOKEN.items()})
    (folder / "reference.tsv").write_text("".join(f"{k}\t{v}\n" for k, v in SAID.items()))
    (folder / "words.txt").write_text("".join(f"{w} {i}\n" for i, w in enumerate(WORDS)))
    (folder / "tokens.txt").write_text("".join(f"{t} {i}\n" for i, t in enumerate(TOKENS)))
    return folder


@pytest.fixture
def run(files, monkeypatch):
    """``run("decode", ...)`` in the folder `files`, within this process."""
    monkeypatch.chdir(files)

    def invoke(*arguments, env=None, input=None):
        return CliRunner(env=env).invoke(app, [str(a) for a in arguments], prog_name="arcbeam", input=input)

    return invoke
