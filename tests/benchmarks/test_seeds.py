"""The header of a result names what was made at random, and with which seed."""

from types import SimpleNamespace

from benchmarks import __main__ as harness
from benchmarks import gpu, record, registry, seeds
from benchmarks.registry import Column


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


def test_seeds_of_a_child_are_its_parents():
    def rows():
        yield {"value": seeds.used("noise of a child", 3)}

    seeds.taken()
    assert list(gpu.isolated(rows)) == [{"value": 3}]
    assert seeds.taken() == {"noise of a child": 3}
