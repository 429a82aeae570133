"""The header of a result names what was made at random, and with which seed."""

import hashlib
from types import SimpleNamespace

from benchmarks import __main__ as harness
from benchmarks.adapters import gpu
from benchmarks.harness import record, registry, seeds
from benchmarks.harness.registry import Column


def test_seeds_are_in_the_header(tmp_path, monkeypatch):
    def experiment(context):
        yield {"value": seeds.used("noise", 7)}

    module = SimpleNamespace(__doc__="One.", run=experiment, COLUMNS=[Column("value", "value")])
    monkeypatch.setattr(registry, "load", lambda name: module)
    seeds.used("of another experiment", 1)
    assert harness.run("one", registry.Context(), "command", tmp_path / "one.jsonl") == 0
    head, rows = record.read(tmp_path / "one.jsonl")
    assert head["seeds"] == {"noise": 7}
    assert rows[0]["value"] == 7


def test_several_seeds_and_weights(tmp_path):
    file = tmp_path / "transducer" / "rnnt.npz"
    file.parent.mkdir()
    file.write_bytes(b"weights")
    seeds.taken()
    assert [seeds.used("numberings", seed) for seed in (3, 0, 3)] == [3, 0, 3]
    assert seeds.weights(file) == file
    noted = {"numberings": [0, 3], "transducer/rnnt.npz": f"sha256 {hashlib.sha256(b'weights').hexdigest()}"}
    assert seeds.taken() == noted
    assert seeds.taken() == {}


def test_seeds_of_a_child_are_its_parents(tmp_path):
    file = tmp_path / "rnnt.npz"
    file.write_bytes(b"weights")

    def rows():
        yield {"value": [seeds.used("noise of a child", 3), *(seeds.used("more", n) for n in range(2))]}
        seeds.weights(file)

    seeds.taken()
    assert list(gpu.isolated(rows)) == [{"value": [3, 0, 1]}]
    noted = seeds.taken()
    assert noted.pop(f"{tmp_path.name}/rnnt.npz").startswith("sha256 ")
    assert noted == {"noise of a child": 3, "more": [0, 1]}


def test_what_is_kept_in_memory_names_its_seeds_again():
    calls = []

    @seeds.kept
    def inner(name):
        calls.append(name)
        return seeds.used(name, 5)

    @seeds.kept
    def outer():
        return inner("a") + inner("b")

    seeds.taken()
    seeds.used("before", 1)
    for _ in range(2):
        assert outer() == 10
        assert seeds.taken() == {"a": 5, "b": 5} | ({"before": 1} if len(calls) == 2 and not _ else {})
    assert inner("b") == 5 and calls == ["a", "b"]
    assert seeds.taken() == {"b": 5}
