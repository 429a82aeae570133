"""Files of graphs and language models: damage is found when one is loaded, and a change while it is mapped."""

import os
from collections.abc import Callable
from typing import NamedTuple

import pytest

from arcbeam import FormatError, Graph, LanguageModel
from arcbeam.files import section_file
from arcbeam.graph import graph_file
from arcbeam.lm import lm_file
from tests.graph import examples
from tests.lm.test_lm_automaton import build


class Kind(NamedTuple):
    format: section_file.Kind
    load: Callable
    make: Callable
    uses: list  # of what is mapped from a file


KINDS = {
    "graph": Kind(graph_file.KIND, Graph.load, lambda folder: examples.example(), [Graph.check_file]),
    "language model": Kind(
        lm_file.KIND,
        LanguageModel.load,
        build,
        [lambda one: one.score("a b"), lambda one: one.words, lambda one: "a" in one],
    ),
}


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.fixture
def path(kind, tmp_path):
    kind.make(tmp_path).save(tmp_path / "saved")
    return tmp_path / "saved"


def test_every_flipped_bit_is_found(kind, path):
    data = path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])
        with pytest.raises(FormatError):
            kind.load(path)


def test_every_truncation_and_extension_is_found(kind, path):
    data = path.read_bytes()
    for size in range(8, len(data), 3):
        path.write_bytes(data[:size])
        with pytest.raises(FormatError, match=f"truncated: expected {len(data)} bytes, got {size}|header of 64 bytes"):
            kind.load(path)
    path.write_bytes(data + b"\0")
    with pytest.raises(FormatError, match=f"too long: expected {len(data)} bytes, got {len(data) + 1}"):
        kind.load(path)


def test_other_versions_and_other_files(kind, path):
    data, version = bytearray(path.read_bytes()), kind.format.version
    data[8:12] = (version + 1).to_bytes(4, "little")
    path.write_bytes(data)
    message = f"expected version {version} of the format, got {version + 1}; {kind.format.again}"
    with pytest.raises(FormatError, match=message):
        kind.load(path)
    for contents in (b"", b"x", b"PK\x03\x04 and so on", bytes(100), b"\\data\\\n" * 20):
        path.write_bytes(contents)
        with pytest.raises(FormatError, match=f"expected {kind.format.name}"):
            kind.load(path)
    with pytest.raises(FileNotFoundError):
        kind.load(path.with_name("gone"))


@pytest.mark.parametrize("size", ["smaller", "same", "larger"])
def test_a_file_that_is_changed_in_place_while_it_is_mapped(kind, path, size):
    used, fresh, copied = kind.load(path), kind.load(path), kind.load(path, in_memory=True)
    kind.uses[0](used)
    data = {"smaller": path.read_bytes()[:500], "same": path.read_bytes()[::-1], "larger": bytes(100_000)}[size]
    message = f"shrank from {path.stat().st_size} to 500 bytes" if size == "smaller" else "was changed in place"
    path.write_bytes(data)
    os.utime(path, ns=(1, 1))  # clocks of file systems are coarse: the writing may have been within one tick
    other = path.with_name("other")
    for one, use in [(used, kind.uses[0]), (used, lambda one: one.save(other)), *((fresh, use) for use in kind.uses)]:
        with pytest.raises(FormatError, match=f"the file {message} while it was mapped"):
            use(one)
    assert not other.exists()
    kind.uses[0](copied)
    copied.save(other)


def test_a_replaced_file_leaves_the_mapped_one_alone(kind, path, tmp_path):
    mapped, before = kind.load(path), path.read_bytes()
    kind.make(tmp_path).save(path)
    kind.uses[0](mapped)
    mapped.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == before
