"""Mutated files of every format: the loader answers with its own exceptions or a sound graph, never with a crash.

A mutant that loads is decoded with, so that what the loader lets through is also shown to be harmless. The mutations
are drawn from a fixed seed; a failing one is written to a file that the message names.
"""

import os
import random
import struct

import kaldifst
import numpy as np
import pytest

from arcbeam import CtcDecoder
from arcbeam.errors import FormatError, GraphError
from arcbeam.graph import Graph
from arcbeam.symbols import SymbolTable, TokenTable
from tests.graph import examples, sealing
from tests.graph.test_openfst import EXAMPLE, INPUTS, OUTPUTS, aligned, file_of, with_symbols

SLOW = os.environ.get("HYPOTHESIS_PROFILE") == "sanitize"  # instrumented extensions: many times slower, more memory
MUTANTS = 300 if SLOW else 3000
SPARE_BYTES = 1 << 30  # far more than any of these small files may make a loader ask for
ALLOWED = (FormatError, GraphError, OSError)
TELLING = [0, 1, 2, 3, 15, 16, 255, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF]
TELLING += [0x100000000, 0x3FFFFFFFFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000, 0xFFFFFFFFFFFFFFFF]
TELLING += [struct.unpack("<I", struct.pack("<f", x))[0] for x in (np.nan, np.inf, -np.inf, -0.0, 1e38)]


def mutate(rng, data):
    """Bytes with one to four accidents."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(data) + 1)
        kind = rng.choice(("flip", "flip", "number", "number", "number", "truncate", "extend", "splice", "remove"))
        if kind == "flip" and at < len(data):
            data = sealing.poke(data, at, bytes([data[at] ^ 1 << rng.randrange(8)]))
        elif kind == "number":
            size = rng.choice((1, 2, 4, 4, 8))
            at -= at % size if rng.random() < 0.5 else 0
            number = rng.choice(TELLING) & ((1 << 8 * size) - 1)
            data = sealing.poke(data, at, number.to_bytes(size, "little")[: max(0, len(data) - at)])
        elif kind == "truncate" and rng.random() < 0.5:
            data = data[:at]
        elif kind == "extend":
            data += rng.randbytes(rng.choice((1, 4, 16, 100)))
        elif kind == "splice":
            other = rng.randrange(len(data) + 1)
            data = data[:at] + data[other : other + rng.choice((1, 4, 12, 16, 64))] + data[at:]
        elif kind == "remove":
            data = data[:at] + data[at + rng.choice((1, 4, 12, 16, 64)) :]
    return data


def openfst_files(folder):
    vector = file_of(EXAMPLE, folder).read_bytes()
    const = file_of(kaldifst.StdConstFst(EXAMPLE), folder).read_bytes()
    return {
        "vector": vector,
        "vector with symbols": with_symbols(vector, INPUTS, OUTPUTS),
        "const": const,
        "aligned const": aligned(const, 1, 0),
    }


@pytest.fixture
def little_memory():
    """Bounds the address space, so that a giant allocation fails at once instead of taking the machine with it."""
    resource = pytest.importorskip("resource")
    if SLOW or not os.path.exists("/proc/self/statm"):
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as statm:
        used = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + SPARE_BYTES, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def attack(seed, data, path, load, change=mutate):
    """Loads mutants of a file; returns how many were accepted."""
    rng = random.Random(seed)
    accepted = 0
    for i in range(MUTANTS):
        mutant = change(rng, data)
        path.unlink(missing_ok=True)  # an earlier mutant may still be mapped
        path.write_bytes(mutant)
        try:
            load(path)
        except ALLOWED as error:
            assert str(error), "an error without a message"
        except BaseException as error:
            raise AssertionError(f"mutant {i} of seed {seed!r}, kept in {path}, raised {error!r}") from error
        else:
            accepted += 1
    return accepted


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
    accepted = attack(form, data, tmp_path / "mutant", load_and_decode)
    assert 0 < accepted < MUTANTS  # some mutations must get through, or they are too coarse to reach anything


@pytest.mark.usefixtures("little_memory")
def test_graph_files(tmp_path):
    examples.example().save(tmp_path / "graph")
    attack("graph", (tmp_path / "graph").read_bytes(), tmp_path / "mutant", load_and_decode)


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

    assert attack("sealed", data, tmp_path / "mutant", load_and_decode, forge) > 0


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("read", [SymbolTable.read, TokenTable.read])
def test_symbol_files(tmp_path, read):
    text = "<eps> 0\n<blk> 1\na 2\nüber 3\n  4\nb\t5\r\n#0 6\n".encode()
    assert 0 < attack(read.__qualname__, text, tmp_path / "mutant", read) < MUTANTS


def test_the_decoder_still_works(tmp_path):
    path = tmp_path / "graph"
    examples.example().save(path)
    load_and_decode(path)
