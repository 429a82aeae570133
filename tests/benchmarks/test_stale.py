"""Results of a GPU name it and the kernels they were measured with, and are stale once the kernels have changed."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from benchmarks.__main__ import main
from benchmarks.harness import record, registry
from benchmarks.harness.registry import Column
from benchmarks.report import __main__ as report
from benchmarks.report import release
from benchmarks.report.results import found
from tests.benchmarks.test_report import HEAD, page_of, table_of

GPU = {"name": "NVIDIA H200", "driver": "580.65.06", "sm_mhz": 1980.0, "most_sm_mhz": 1980.0, "memory_mhz": 3201.0}
GPU |= {"watts": 90.0, "most_watts": 700.0, "celsius": 30.0}


class Experiment:
    """Measured on a GPU, with a curve."""

    TITLE, COLUMNS, ON_GPU = "On a GPU", [Column("RTFx", "rtfx", "{:,.0f}")], True
    runs = 0

    rows = ({"rtfx": 54321.0},)

    def run(self, context):
        self.runs += 1
        yield from self.rows

    def draw(self, rows, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"a figure")


@pytest.fixture
def experiment(monkeypatch):
    """The one experiment that there is."""
    made = Experiment()
    made.__doc__ = Experiment.__doc__
    monkeypatch.setattr(registry, "names", lambda: ["gpu_x"])
    monkeypatch.setattr(registry, "load", lambda name: made)
    monkeypatch.setattr(record, "gpu", lambda: GPU)
    return made


def test_what_measures_on_a_gpu_is_no_result_of_a_cpu(experiment, capsys):
    assert main(["gpu_x"]) == 2
    assert "gpu_x measures on a GPU: say --machine gpu" in capsys.readouterr().err
    assert experiment.runs == 0


def write(folder, **more):
    path = folder / "h200" / "gpu_x.jsonl"
    record.write(
        path, HEAD | {"gpu": GPU, "kernels": {"search": record.tree_kernels()["search"]}} | more, [{"rtfx": 54321.0}]
    )
    return path


def test_the_digest_of_the_tree_is_that_of_a_build_from_it():
    done = [sys.executable, "-c", "import cuda_build, json; print(json.dumps(cuda_build.sources_digests()))"]
    said = subprocess.run(done, cwd=record.ROOT / "build_backend", capture_output=True, text=True, check=True).stdout
    assert json.loads(said) == record.tree_kernels()


def test_kernels_change_with_what_they_include_alone():
    listed = "[[str(p) for p in cuda_build.sources_of(u)] for u in cuda_build.units()]"
    done = [sys.executable, "-c", f"import cuda_build, json; print(json.dumps({listed}))"]
    run = subprocess.run(done, cwd=record.ROOT / "build_backend", capture_output=True, text=True, check=True)
    sources = {next(p for p in paths if p.endswith(".cu")): paths for paths in json.loads(run.stdout)}
    search = sources[str(record.ROOT / "cuda/decode/kernels/search.cu")]
    assert {str(record.ROOT / name) for name in ("cuda/decode/rounds.cuh", "cuda/shared/cost.hpp")} <= set(search)
    assert not any("cuda/transducer/" in path for path in search)


def test_a_result_of_a_gpu_names_it_and_its_kernels(experiment, tmp_path):
    write(tmp_path)
    table = table_of(tmp_path, "gpu_x")
    assert "NVIDIA H200, driver 580.65.06, 1980 of 1980 MHz, memory at 3201 MHz, 90 of 700 W before" in table
    assert f"search {record.tree_kernels()['search'][:12]}" in table
    assert "![On a GPU](../plots/h200-gpu_x.png)" in table
    assert "](plots/h200-gpu_x.png)" in page_of(tmp_path)


def test_results_of_the_cpu_are_never_stale():
    assert not record.changed_kernels(HEAD, {"search": "f" * 64})


def test_a_release_has_no_stale_results_and_no_trials(experiment, tmp_path, capsys, monkeypatch):
    page = tmp_path / "b.md"

    def check(*options):
        monkeypatch.setattr(sys, "argv", ["report", "--results", str(tmp_path), "--page", str(page), *options])
        return report.main(), capsys.readouterr().err

    write(tmp_path)
    assert check("--release")[0] == 1 and "is not what the results give" in check("--check")[1]
    assert check()[0] == 0  # writes the page
    assert (tmp_path / "plots" / "h200-gpu_x.png").read_bytes() == b"a figure"
    assert check("--release") == (0, "")
    write(tmp_path, kernels={"search": "f" * 64})
    behind = "is not what the results give: run python -m benchmarks.report\n"
    assert check("--check") == (1, f"{tmp_path / 'tables' / 'gpu_x.md'} {behind}")  # the page tells no kernel
    check()
    assert check("--check") == (0, "")
    assert check("--release") == (1, "h200/gpu_x.jsonl is stale: since abc these kernels have changed: search\n")
    write(tmp_path, trial=True)
    check()
    assert check("--release") == (1, "h200/gpu_x.jsonl is a trial on a part of the data\n")


def test_a_run_on_a_gpu_can_be_taken_up_again(experiment, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    monkeypatch.setattr(record, "commit", lambda: "abc")
    monkeypatch.setattr(record, "built_kernels", lambda: {"search": "1" * 64})
    command = ["--machine", "gpu", "--resume", "all"]
    assert [main(command), main(command)] == [0, 0]
    assert experiment.runs == 1
    head, rows = record.read(tmp_path / "h200" / "gpu_x.jsonl")
    assert (head["gpu"], head["kernels"], rows[0]["rtfx"]) == (GPU, {"search": "1" * 64}, 54321.0)
    monkeypatch.setattr(record, "commit", lambda: "abd")
    assert main(command) == 0 and experiment.runs == 2
    monkeypatch.setattr(record, "built_kernels", lambda: {"search": "2" * 64})
    assert main(command) == 0 and experiment.runs == 3
    assert main(["--machine", "gpu", "gpu_x"]) == 0 and experiment.runs == 4
    monkeypatch.setattr(record, "gpu", dict)
    assert main(command) == 2
    assert "nvidia-smi names no GPU" in capsys.readouterr().err


def test_a_failed_row_is_no_result(experiment, tmp_path, monkeypatch):
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    experiment.rows = [{"rtfx": 1.0}, {"status": "failed: the process ended with -9"}]
    assert main(["--machine", "gpu", "--resume", "gpu_x"]) == 1
    assert not record.is_done(tmp_path / "h200" / "gpu_x.jsonl")
    assert "h200/gpu_x.jsonl has a row that failed: the process ended with -9" in list(
        release.unfit(tmp_path, tmp_path)
    )
    experiment.rows = [{"rtfx": 1.0}, {"status": "missing: riva"}]
    assert main(["--machine", "gpu", "--resume", "gpu_x"]) == 0
    assert experiment.runs == 2
    assert [path.name for path in (tmp_path / "h200").iterdir()] == ["gpu_x.jsonl"]


def test_what_broke_off_keeps_its_rows(experiment, tmp_path, monkeypatch):
    def rows(context):
        yield {"rtfx": 1.0}
        raise AssertionError("not the twin's bytes")

    monkeypatch.setattr(record, "RESULTS", tmp_path)
    experiment.run = rows
    with pytest.raises(AssertionError):
        main(["--machine", "gpu", "gpu_x"])
    _, kept = record.read(tmp_path / "h200" / "gpu_x.partial.jsonl")
    assert kept[0]["rtfx"] == 1.0
    assert list(found(tmp_path)) == []


def test_the_gpu_as_nvidia_smi_describes_it(monkeypatch, tmp_path):
    line = "NVIDIA H100 80GB HBM3, 580.65.06, 1755, 2619, 1980, 71.52, 700.00, [N/A]"
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\necho '{line}'\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    found = record.gpu()
    assert (found["driver"], found["sm_mhz"], found["watts"], found["celsius"]) == ("580.65.06", 1755.0, 71.52, "[N/A]")
    assert record.device_folder(found["name"]) == "h100-80gb-hbm3"
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\nexit 9\n")
    assert record.gpu() == {}


def test_sources_without_history_are_told_their_commit(monkeypatch):
    monkeypatch.setattr(record, "git", lambda *arguments: "")
    monkeypatch.setenv("ARCBEAM_COMMIT", "0123456789abcdef")
    assert record.commit() == "0123456789ab"


def test_what_keeps_cuda_comes_after_those_that_fork(experiment, tmp_path, monkeypatch):
    """A process that has used CUDA can fork no experiment that does."""
    order, keeps = [], ("gk23_table1", "gk23_table3")
    monkeypatch.setattr(registry, "load", lambda name: SimpleNamespace(KEEPS_CUDA=name in keeps))
    monkeypatch.setattr("benchmarks.__main__.run", lambda name, *rest: order.append(name) or 0)
    assert (
        main(["gk23_table3", "gpu_x", "gk23_table1", "f19_table1", "--machine", "gpu", "--output", str(tmp_path)]) == 0
    )
    assert order == ["gpu_x", "f19_table1", "gk23_table3", "gk23_table1"]
