"""The header of a result names what was made at random, and with which seed."""

from types import SimpleNamespace

from benchmarks import __main__ as harness
from benchmarks import gpu, record, registry, seeds, stage_timing
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


def test_what_is_kept_in_memory_names_its_seed_again(monkeypatch):
    monkeypatch.setattr(stage_timing, "_last_frame", lambda: None)
    for _ in range(2):
        stage_timing.frame()
        assert seeds.taken() == {"graph and frames of the stages": stage_timing.SEED}
