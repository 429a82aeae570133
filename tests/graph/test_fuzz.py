"""Mutated files of every format: the loader answers with its own exceptions or a sound graph, never with a crash.

A mutant that loads is decoded with, so that what the loader lets through is also shown to be harmless. The mutations
are drawn from a fixed seed; a failing one is written to a file that the message names.
"""

import struct

import kaldifst
import numpy as np
import pytest

from arcbeam import CtcDecoder
from arcbeam.graph.graph import Graph
from arcbeam.graph.symbols import SymbolTable
from arcbeam.graph.token_table import TokenTable
from tests.files.mutants import MUTANTS, TELLING, attack, little_memory, mutate  # noqa: F401 - a fixture
from tests.graph import examples, sealing
from tests.graph.test_openfst import EXAMPLE, INPUTS, OUTPUTS, aligned, file_of, with_symbols


def openfst_files(folder):
    vector = file_of(EXAMPLE, folder).read_bytes()
    const = file_of(kaldifst.StdConstFst(EXAMPLE), folder).read_bytes()
    return {
        "vector": vector,
        "vector with symbols": with_symbols(vector, INPUTS, OUTPUTS),
        "const": const,
        "aligned const": aligned(const, 1, 0),
    }


def load_and_decode(path):
    graph = Graph.load(path)
    str(graph.info())
    if graph.num_columns > 1000:
        return
    log_probs = np.random.default_rng(0).normal(size=(4, graph.num_columns)).astype(np.float32)
    (hypothesis,) = CtcDecoder(graph, beam=np.inf, max_active=1000, device="cpu", threads=1).decode([log_probs])
    assert len(hypothesis.tokens) <= 4 and isinstance(hypothesis.text, str)


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("form", ["vector", "vector with symbols", "const", "aligned const"])
def test_openfst_files(tmp_path, form):
    data = openfst_files(tmp_path)[form]
    accepted = attack(form, data, tmp_path / "mutant", load_and_decode, MUTANTS)
    assert 0 < accepted < MUTANTS  # some mutations must get through, or they are too coarse to reach anything


@pytest.mark.usefixtures("little_memory")
def test_graph_files(tmp_path):
    examples.example().save(tmp_path / "graph")
    attack("graph", (tmp_path / "graph").read_bytes(), tmp_path / "mutant", load_and_decode, MUTANTS)


@pytest.mark.usefixtures("little_memory")
def test_graph_files_with_checksums_made_to_fit(tmp_path):
    examples.example().save(tmp_path / "graph")
    data = (tmp_path / "graph").read_bytes()
    columns = [sealing.sections(data)[name] for name in ("states", "targets", "columns", "words", "finals")]

    def forge(rng, original):
        if rng.random() < 0.3:
            return sealing.reseal(mutate(rng, original))
        # Most of the file is text and padding: aim at the columns.
        for _ in range(rng.choice((1, 2, 3))):
            offset, size = rng.choice(columns)
            at = offset + rng.randrange(0, size - 3, 2)
            number = rng.choice((rng.randrange(12), rng.choice(TELLING) & 0xFFFFFFFF))
            original = sealing.poke(original, at, struct.pack("<I", number))
        return sealing.reseal(original)

    assert attack("sealed", data, tmp_path / "mutant", load_and_decode, MUTANTS, forge) > 0


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("read", [SymbolTable.read, TokenTable.read])
def test_symbol_files(tmp_path, read):
    text = "<eps> 0\n<blk> 1\na 2\nüber 3\n  4\nb\t5\r\n#0 6\n".encode()
    assert 0 < attack(read.__qualname__, text, tmp_path / "mutant", read, MUTANTS) < MUTANTS
