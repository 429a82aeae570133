"""The experiment on loading kernels, on the fake driver."""

from benchmarks.engine import ceilings
from benchmarks.harness import registry
from tests.benchmarks.on_emulated_gpu import rows_of
from tests.decode.emulated_gpu import EmulatedGpu


def test_rows(emulated_gpu, monkeypatch):
    experiment = registry.load("gpu_load")
    monkeypatch.setattr(experiment, "KERNELS", ("search", "bucketed"))
    monkeypatch.setattr(ceilings, "compile_kernels", lambda _, source: EmulatedGpu.image(source.stem) + bytes(9))
    rows = rows_of("gpu_load")
    assert [row["kernels"] for row in rows] == ["search", "bucketed"]
    for row in rows:
        assert row["plain_bytes"] == row["bytes"] + 9
        assert 0 < row["spread"][0] <= row["ms"] <= row["spread"][1]
        assert 0 < row["plain_spread"][0] <= row["plain_ms"] <= row["plain_spread"][1]


def test_every_source_is_there():
    experiment = registry.load("gpu_load")
    for name in experiment.KERNELS:
        assert experiment.source_of(name).stem == name
