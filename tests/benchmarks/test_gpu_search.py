"""The experiments on the search by itself, line by line, on an emulated GPU: tiny inputs."""

import pytest

from arcbeam.gpu.tuned import search_plan
from benchmarks.adapters import gpu
from benchmarks.data import graphs
from benchmarks.harness import registry, timing
from benchmarks.harness.registry import Context
from tests.benchmarks.on_emulated_gpu import has_matplotlib, rows_of


def test_arcs(small):
    for name, graphs_of in (("gpu_arcs", 3), ("gpu_pieces", 2)):
        rows = rows_of(name)
        assert [row["fits_l2"] for row in rows] == [True] * 2 * graphs_of
        assert all(row["share"] == pytest.approx(row["settled"]) and row["share"] > 0 for row in rows)


def test_single(small):
    rows = rows_of("gpu_single", utterances=3)
    assert [row["kind"] for row in rows[:2]] == ["short", "long"]
    assert rows[1]["frames"] == 3 * rows[0]["frames"]
    assert all(row["reads_in_a_row"] == pytest.approx(5 * row["us_a_frame"]) for row in rows)
    assert all(row["share"] == pytest.approx(row["settled"]) and row["share"] > 0 for row in rows)


@pytest.mark.parametrize("name", ["gpu_long", "long"])
def test_long(small, name):
    rows = rows_of(name, minutes="0.05,0.01")
    assert [(row["minutes"], row["frames"]) for row in rows[:2]] == [(0.01, 15), (0.05, 75)]
    assert [row["search"] for row in rows[::2]] == ["17 / 10,000", "12 / 5,000"]
    assert rows[0]["ratio"] == 1.0 < rows[0]["us_a_frame"]
    if name == "gpu_long":
        assert all(row["share"] == pytest.approx(row["settled"]) and row["share"] > 0 for row in rows)


@pytest.fixture
def of_this_process(monkeypatch):
    """Memory is that of this process: the GPU is emulated in it alone."""
    experiment = registry.load("gpu_long_lattice")
    monkeypatch.setattr(experiment, "in_own_process", lambda *told: experiment.memory_of_this_process(*told))
    monkeypatch.setattr(graphs, "files", graphs.get)
    return experiment


def test_long_lattice(small, of_this_process, monkeypatch):
    rows = rows_of("gpu_long_lattice", minutes="0.05,0.01")
    assert [(row["minutes"], row["frames"], row["lattice_beam"]) for row in rows] == [(0.01, 15, 8.0), (0.05, 75, 8.0)]
    for row in rows:
        assert row["links"] > 1 and row["bytes_a_frame"] > 16 * row["links"] and row["ratio"] > 0
        assert row["device_mib"] > row["best_device_mib"] > 0 and row["process_mib"] > 1
    other = gpu.decoder(graphs.get("any").graph, gpu.WIDE, lattice_beam=2.0)
    monkeypatch.setattr(of_this_process, "decoder_with_less_room", lambda graph: other)
    with pytest.raises(gpu.Wrong, match="of the lattice differ from that of a decoder which begins with less room"):
        list(of_this_process.run(Context(1, 3, {"minutes": "0.01"})))
    other = None  # gone before its device is


def test_batch(small, tmp_path):
    rows = rows_of("gpu_batch", utterances=4)
    assert [row["batch"] for row in rows] == [1, 2, 4] * 2
    assert all(row["share"] == pytest.approx(row["settled"]) and row["share"] > 0 for row in rows)
    registry.load("gpu_batch").draw([*rows, {"status": "failed"}], tmp_path / "batch.png") if has_matplotlib() else None
    assert not has_matplotlib() or (tmp_path / "batch.png").stat().st_size > 1000


def test_host_arrays(small):
    rows = rows_of("gpu_host_arrays", utterances=4)
    assert [row["kind"] for row in rows[:5]] == [
        "device, float32", "host, float32", "host, float32, page-locked", "device, float16", "host, float16",
    ]  # fmt: skip
    assert ["slower" in row for row in rows[:5]] == [False, True, True, False, True]
    assert all(row["rtfx_spread"] == pytest.approx(timing.rtfx_spread(row)) for row in rows)
    assert all(row["of_copy"] == pytest.approx(row["gb_a_second"]) for row in rows if "slower" in row)
    assert all(row["share"] == pytest.approx(row["settled"]) and row["share"] > 0 for row in rows)


def test_lists(small, monkeypatch):
    experiment = registry.load("gpu_lists")
    monkeypatch.setattr(experiment, "on_device", lambda pieces: (gpu.send([pieces])[0], gpu.send(list(pieces))))
    [row] = rows_of("gpu_lists", utterances=3)
    assert row["batch"] == 3 and row["each_spread"][0] <= row["each_us"] <= row["each_spread"][1]
    assert row["list_ms"] > 0 and row["array_ms"] > 0
    monkeypatch.setattr(gpu, "check", wrong)
    with pytest.raises(gpu.Wrong, match="other answers"):
        rows_of("gpu_lists", utterances=3)


def wrong(*_, **__):
    raise gpu.Wrong("other answers")


def test_balance(small, monkeypatch):
    monkeypatch.setattr(registry.load("gpu_balance"), "TIMES", 1.5)
    rows = rows_of("gpu_balance", utterances=5)
    assert [row["hot"] for row in rows] == [1]
    assert rows[0]["times"] > 1.05
    assert rows[0]["reads_without"] > 0 and rows[0]["reads_with"] > 0


def test_twin(small):
    rows = rows_of("gpu_twin", utterances=4)
    assert len(rows) == 2 and all(row["ratio_n"] > 0 for row in rows)
    assert all(row["share"] == pytest.approx(row["settled"]) and row["share"] > 0 for row in rows)


def test_shapes(small, monkeypatch):
    experiment = registry.load("gpu_shapes")
    assert {shape for shape, _ in experiment.shapes()} > {search_plan.WIDE, search_plan.DENSE, search_plan.CLUSTER}
    some = [(search_plan.WIDE, search_plan.TEAM_TOKENS), (search_plan.CLUSTER, search_plan.TEAM_TOKENS)]
    monkeypatch.setattr(experiment, "shapes", lambda: some)
    rows = rows_of("gpu_shapes", utterances=2)
    assert [bool(row["chosen"]) for row in rows] == [True, False] * 2
    assert min(row["to_best"] for row in rows) == 1.0
    assert all(row["share"] == pytest.approx(row["settled"]) and row["share"] > 0 for row in rows)
    monkeypatch.setattr(experiment, "LITTLE_SHARED_BATCHES", (2,))
    rows = rows_of("gpu_shapes", utterances=2)[:4]
    assert [row["shape"].endswith(", 512 shared") for row in rows] == [False, False, True, True]
    assert [bool(row["chosen"]) for row in rows] == [True, False, False, False]
