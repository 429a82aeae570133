"""Thousands of mutants of what a job reads: archives of log-probs, which are then decoded, and lists of phrases.

Nothing but arcbeam's own exceptions may come out, and they name the file. The seeds are fixed, as in ``test_fuzz.py``,
which does a part of this with every change.
"""

import re
import warnings
import zipfile

import numpy as np
import pytest

from arcbeam import Boost, CtcDecoder, Graph, SymbolTable, TokenTable, read_log_probs
from arcbeam.cli.boosts import word_boosts
from arcbeam.cli.references import read_references
from tests.files.mutants import MUTANTS, little_memory, mutate, mutate_text  # noqa: F401 - a fixture
from tests.files.mutants import attack as attack_files
from tests.files.test_fuzz import UTTERANCES, npy, npz, packed_arrays

WORDS = ["<eps>", "a", "ab", "new", "york"]
PHRASES = b"new york\t3.5\na ab\nab\t-1e0\n\nnew ab a\t2\n"

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("little_memory")]


@pytest.fixture(scope="module")
def decoder():
    arcs = [(0, 0, column + 1, column, 0.25 * column) for column in range(5)]
    graph = Graph.from_arcs(
        arcs, finals={0: 0.0}, tokens=TokenTable.from_list(["<blank>", "a", "b", "c", "d"]),
        word_symbols=SymbolTable.from_list(WORDS),
    )  # fmt: skip
    return CtcDecoder(graph, device="cpu", threads=1)


def attack(*arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return attack_files(*arguments)


def reader(decoder, **asked):
    def read(path):
        for _, log_probs in read_log_probs(path):
            try:
                [found] = decoder.decode([log_probs[:100]], **asked)
            except ValueError as error:
                assert re.match(r"log_probs(\[0\])?: expected", str(error)), error
            else:
                assert isinstance(found.text, str)

    return read


def archives(folder):
    """Files by name: what to attack, and how it is changed."""
    kaldiio = pytest.importorskip("kaldiio", reason="writes and reads compressed matrices: arcbeam[cli]")
    named = {f"{name}.npy": npy(value) for name, value in UTTERANCES.items()}
    padded = np.zeros((3, 4, 5), np.float16)
    found = {"one.npy": (npy(UTTERANCES["utt-2"]), mutate), "batch.npy": (npy(padded), mutate)}
    for kind, compression in (("stored", zipfile.ZIP_STORED), ("deflated", zipfile.ZIP_DEFLATED)):
        for layout, members in (
            ("packed", packed_arrays()), ("named", named),
            ("padded", {"log_probs.npy": npy(padded), "lengths.npy": npy(np.array([4, 0, 2]))}),
        ):  # fmt: skip
            found[f"{kind}-{layout}.npz"] = (npz(members, compression), mutate)
            found[f"{kind}-{layout}-members.npz"] = (b"", members_changed(members, compression))
    for name, how in (("float", {}), ("compressed", {"compression_method": 2}), ("text", {"text": True})):
        kaldiio.save_ark(str(folder / "whole"), UTTERANCES, scp=str(folder / "whole.scp"), **how)
        change = mutate_text if name == "text" else mutate
        found[f"{name}.ark"] = ((folder / "whole").read_bytes(), change)
    found["index.scp"] = ((folder / "whole.scp").read_bytes(), mutate_text)
    return found


def members_changed(members, compression):
    """Changes arrays within an archive whose checksums fit."""

    def change(rng, _):
        return npz(
            {name: mutate(rng, data) if rng.random() < 0.5 else data for name, data in members.items()}, compression
        )

    return change


NAMES = ["one.npy", "batch.npy", "float.ark", "compressed.ark", "text.ark", "index.scp"]
NAMES += [
    f"{kind}-{layout}{members}.npz"
    for kind in ("stored", "deflated")
    for layout in ("packed", "named", "padded")
    for members in ("", "-members")
]


@pytest.mark.parametrize("name", NAMES)
def test_archives(tmp_path, decoder, name):
    data, change = archives(tmp_path)[name]
    assert attack(name, data, tmp_path / name, reader(decoder), MUTANTS, change) < MUTANTS
    attack(name, data, tmp_path / name, reader(decoder, nbest=3, confidence=True), MUTANTS // 8, change)


def test_lists_of_phrases(tmp_path, decoder):
    def boosted(path):
        decoder.decode([UTTERANCES["utt-2"]], boost=Boost.read(path))

    assert 0 < attack("phrases", PHRASES, tmp_path / "phrases.txt", boosted, MUTANTS, mutate_text) < MUTANTS
    attack("bytes", PHRASES, tmp_path / "phrases.txt", boosted, MUTANTS)


def test_maps_of_lists(tmp_path):
    (tmp_path / "phrases.txt").write_bytes(PHRASES)
    text = b"utt-0 phrases.txt\nutt-1\tphrases.txt\nutt-2 phrases.txt\n"

    def listed(path):
        boosts = word_boosts(None, path, 1.0, None)
        assert all(boosts(name) is None or len(boosts(name)) for name in UTTERANCES)

    assert 0 < attack("map", text, tmp_path / "map.txt", listed, MUTANTS, mutate_text) < MUTANTS


REFERENCES = {"a.tsv": b"utt-1\ta b\nutt-2\tc\n", "a.trn": b"a b (utt-1)\nc (utt-2)\n", "text": b"utt-1 a b\nutt-2 c\n"}


@pytest.mark.parametrize("name", REFERENCES)
def test_references(tmp_path, name):
    attack(name, REFERENCES[name], tmp_path / name, lambda path: read_references([path]), MUTANTS, mutate_text)
