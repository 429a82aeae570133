"""Result files and the page that is made from them."""

import json
import re
import subprocess
import sys

import pytest

from benchmarks.__main__ import main
from benchmarks.data import datasets
from benchmarks.harness import record, registry, timing
from benchmarks.harness.registry import Column
from benchmarks.pack import proof
from benchmarks.report import __main__ as report
from benchmarks.report import contents, page, readme, tables
from benchmarks.report.results import Result, found

HEAD = {"record": "header", "command": "python -m benchmarks x", "time": "today", "commit": "abc", "dirty": True}
HEAD |= {"seconds": 1.5, "processor": "P", "cores": 2, "memory_gib": 8.0, "load_before": 0.1, "repeats": 5}
HEAD |= {"versions": {"python": "3.11", "kenlm": "not installed"}}


def page_of(results):
    """The page of these results, which lies beside the folders of devices."""
    return page.text(results, results / "page.md", list(found(results)))


def table_of(results, name):
    measured = [result for result in found(results) if result.name == name]
    return tables.text(name, measured, results / "page.md")


def test_every_experiment_has_a_title_columns_and_a_summary():
    names = registry.names()
    assert {"faster_decoder", "threads", "wer", "gpu_tests"} <= set(names)
    for name in names:
        experiment = registry.load(name)
        assert experiment.TITLE and experiment.COLUMNS and callable(experiment.run), name
        assert registry.summary(name), name
        keys = [c.key for c in experiment.COLUMNS]
        assert len(keys) == len(set(keys)), name


def test_an_unknown_experiment_is_named_with_what_there_is(capsys):
    assert main(["no_such"]) == 2
    assert "no experiment 'no_such'" in (error := capsys.readouterr().err)
    assert "faster_decoder" in error


def test_a_result_file_comes_back(tmp_path):
    path = tmp_path / "cpu" / "wer.jsonl"
    record.write(path, record.header("wer", "command", repeats=3), [{"set": "demo", "greedy": 4.7}])
    head, rows = record.read(path)
    assert (head["experiment"], head["command"], head["repeats"]) == ("wer", "command", 3)
    assert {"commit", "dirty", "processor", "versions", "load_before"} <= set(head)
    assert rows == [{"record": "row", "set": "demo", "greedy": 4.7}]


def test_results_of_the_run_before_are_no_change(tmp_path, monkeypatch):
    monkeypatch.delenv("ARCBEAM_COMMIT", raising=False)
    monkeypatch.setattr(record, "ROOT", tmp_path)
    result, source = tmp_path / "benchmarks" / "results" / "x.jsonl", tmp_path / "x.py"
    result.parent.mkdir(parents=True)
    for path in (result, source):
        path.write_text("one\n")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    author = ["-c", "user.name=x", "-c", "user.email=x@x"]
    subprocess.run(["git", *author, "commit", "-qm", "one"], cwd=tmp_path, check=True)
    assert not record.is_dirty()
    result.write_text("two\n")
    assert not record.is_dirty()
    source.write_text("two\n")
    assert record.is_dirty()
    monkeypatch.setenv("ARCBEAM_COMMIT", "abc")
    assert not record.is_dirty()


def test_a_file_without_a_header_is_refused(tmp_path):
    (tmp_path / "x.jsonl").write_text(json.dumps({"record": "row"}) + "\n")
    with pytest.raises(ValueError, match="not a header"):
        record.read(tmp_path / "x.jsonl")


def test_a_table_shows_what_the_rows_hold():
    columns = [Column("name", "n"), Column("ratio", "r", "{:.1f}"), Column("spread", "s", "{:.1f}"), Column("no", "x")]
    assert list(tables.table(columns, [{"n": "a|b", "r": 1.26, "s": [1.2, 1.36]}, {"n": "c", "r": 2}])) == [
        "| name | ratio | spread |",
        "|---|---:|---:|",
        "| a\\|b | 1.3 | 1.2 to 1.4 |",
        "| c | 2.0 |  |",
    ]


def test_the_header_names_what_compiled_and_the_clocks_after_the_run(monkeypatch):
    head = record.header("wer", "command", kernels=("search",), repeats=3)
    assert head["versions"]["nvcc"] == (record.built_with() or "not known")
    assert "nvcc" not in record.header("wer", "command", repeats=3)["versions"]
    assert {"nemo-toolkit", "soundfile"} <= set(head["versions"])
    assert head["versions"]["compiler"] == "not known" or "GCC" in (said := record.compiler()) or "clang" in said
    clocks = {"name": "G", "sm_mhz": 1980.0, "memory_mhz": 3201.0, "watts": 9.0, "celsius": 3.0}
    monkeypatch.setattr(record, "gpu", lambda: clocks)
    head["gpu"] = {"name": "G"}
    record.close(head, 1.26, {"set": 0})
    assert head["gpu_after"] == {key: clocks[key] for key in ("sm_mhz", "memory_mhz", "watts", "celsius")}
    assert (head["seconds"], head["seeds"]) == (1.3, {"set": 0}) and "load_after" in head
    of_cpu = record.header("wer", "command", repeats=3)
    record.close(of_cpu, 1.0, {})
    assert "gpu_after" not in of_cpu


def test_the_page_and_the_tables_come_from_the_results_alone(tmp_path):
    record.write(tmp_path / "cpu" / "wer.jsonl", HEAD | {"trial": True}, [{"set": "demo", "greedy": 4.7123}])
    text = table_of(tmp_path, "wer")
    assert text.startswith("# Word error rate\n") and "\n## cpu\n" in text
    assert "| demo | 4.71 |" in text
    assert "A trial on a part of the data" in text
    assert "commit abc with changes" in text
    assert "kenlm" not in text
    text = contents.text(list(found(tmp_path)))
    assert f"## {contents.OTHERS}\n" in text and contents.PAPERS not in text
    assert "| [Word error rate](wer.md) | Word error rate of the 3-gram graph on real speech, " in text
    assert "| cpu (today, commit abc with changes) |" in text
    assert "| cpu | P, 2 cores | today | 1 |" in text
    text = page_of(tmp_path)
    assert "CPU results are from virtual machines (P). [All tables](tables/README.md)" in text
    assert "peers.svg" not in text and "Tests on a GPU" not in text and "| task |" not in text


def test_what_is_committed_is_current():
    """The page, a table for each experiment, the README's, the picture."""
    assert readme.BEGIN in (record.ROOT / "README.md").read_text(encoding="utf-8")
    assert list(report.differences(record.RESULTS, report.PAGE)) == []
    names = {contents.NAME, *(result.name for result in found(record.RESULTS))}
    assert {path.stem for path in (record.RESULTS / "tables").iterdir()} == names


def test_a_report_needs_no_package_that_builds():
    """Whether results are stale follows from the sources alone."""
    code = "import sys; sys.modules['setuptools'] = None; from benchmarks.harness import record; record.tree_kernels()"
    subprocess.run([sys.executable, "-c", code], cwd=record.ROOT, check=True)


def test_links_of_the_page_and_the_tables_lead_somewhere():
    for path in (report.PAGE, *(record.RESULTS / "tables").iterdir()):
        for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_ratios_are_taken_within_a_turn():
    slow, fast = timing.Timing([2.0, 9.0, 4.0], [2.0, 3.0, 4.0]), timing.Timing([1.0, 3.0, 1.0], [1.0, 1.0, 1.0])
    assert timing.ratio(slow, fast) == (3.0, [2.0, 4.0])
    assert timing.cpu_ratio(slow, fast) == 3.0


def test_contenders_take_turns():
    calls = []
    timings = timing.interleave({n: lambda n=n: calls.append(n) for n in "ab"}, repeats=3)
    assert "".join(calls) == "ab" + "ab" + "ba" + "ab"
    assert [len(t.wall) for t in timings.values()] == [3, 3]
    calls.clear()
    timings = timing.interleave({n: lambda n=n: calls.append(n) for n in "ab"}, 2, warm_up=False, before=1)
    assert "".join(calls) == "aabb" + "bbaa"
    assert [len(t.wall) for t in timings.values()] == [2, 2]


class Failing:
    """Fails in some way."""

    TITLE, COLUMNS, TAKES = "Failing", [Column("n", "n")], {}

    def __init__(self, error):
        self.error = error

    def run(self, context):
        yield {"n": 1}
        if self.error is not None:
            raise self.error


def test_an_experiment_that_fails_does_not_keep_others_from_running(tmp_path, monkeypatch, capsys):
    errors = {
        "data": datasets.DataMissing("there is no such set"),
        "package": ModuleNotFoundError("No module named 'torch'", name="torch.nn"),
        "fault": ValueError("a fault"),
        "good": None,
    }
    monkeypatch.setattr(registry, "load", lambda name: Failing(errors[name]))
    monkeypatch.setattr(registry, "summary", lambda name: name)
    assert main([*errors, "--output", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "data: there is no such set" in said and "package: the package torch.nn is missing" in said
    assert "Traceback" in said and "ValueError: a fault" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "data.partial.jsonl", "fault.partial.jsonl", "good.jsonl", "package.partial.jsonl",
    ]  # fmt: skip
    assert main(["good", "--output", str(tmp_path)]) == 0
    with pytest.raises(ValueError, match="a fault"):
        main(["fault", "--output", str(tmp_path)])


PEERS = [Column("decoder", "decoder"), Column("RTFx", "rtfx"), Column("its RTFx", "peer_rtfx"), Column("st", "status")]


@pytest.mark.parametrize(
    ("now", "lost"),
    [
        ([{"decoder": "a", "rtfx": 2.0}, {"decoder": "b", "rtfx": 1.0}], []),
        ([{"decoder": "a", "rtfx": 2.0}, {"decoder": "b", "status": "missing: b"}], ["b: missing: b"]),
        ([{"decoder": "a", "rtfx": 2.0}, {"decoder": "c", "status": "missing: c"}], []),
        ([{"decoder": "a", "rtfx": 2.0}, {"decoder": "new", "status": "missing: new"}], []),
        ([{"decoder": "a", "status": "failed: a"}, {"decoder": "b", "status": "failed: b"}], ["RTFx"]),
    ],
)
def test_what_a_rerun_lacks(now, lost):
    before = [{"decoder": "a", "rtfx": 3.0}, {"decoder": "b", "rtfx": 1.5}, {"decoder": "c", "status": "missing: c"}]
    assert record.lost(PEERS, before, now) == lost


def test_a_rerun_without_a_peer_is_not_stored(tmp_path, monkeypatch, capsys):
    """Neither where the peer has a column, nor where it has a row; unless it is allowed."""
    rows = [{"decoder": "ours", "rtfx": 3.0, "peer_rtfx": 1.0}]
    module = Failing(None)
    module.COLUMNS, module.run = PEERS, lambda context: iter(rows)
    monkeypatch.setattr(registry, "load", lambda name: module)
    monkeypatch.setattr(registry, "summary", lambda name: name)
    path = tmp_path / "one.jsonl"
    assert main(["one", "--output", str(tmp_path)]) == 0
    stored = path.read_bytes()
    rows[0] = {"decoder": "ours", "rtfx": 4.0, "status": "missing: the package peer"}
    assert main(["one", "--output", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert f"one: not stored, because {path} has what this run lacks:\n  its RTFx\n  ours: missing: the package" in said
    assert "say --allow-missing" in said and path.read_bytes() == stored
    assert record.read(tmp_path / "one.partial.jsonl")[1][0]["rtfx"] == 4.0
    assert main(["one", "--output", str(tmp_path), "--allow-missing"]) == 0
    assert record.read(path)[1][0]["rtfx"] == 4.0 and not (tmp_path / "one.partial.jsonl").exists()
    assert main(["one", "--output", str(tmp_path)]) == 0


def test_a_part_of_the_tests_that_failed_was_run(tmp_path):
    """The page says what failed apart from what was not run."""
    head = {"time": "2026-11-30 00:05 UTC", "commit": "4de116285404", "dirty": False, "gpu": {"name": "NVIDIA H200"}}
    failed = {"part": "riva", "passed": 23, "failed": 1, "status": "failed: make ended with 2, 1 tests failed"}
    rows = [{"part": "decode", "passed": 478, "failed": 0}, failed, {"part": "large", "status": proof.NOT_RUN}]
    said = list(page.tests([Result(tmp_path / "h200" / "gpu_tests.jsonl", head, rows)], "{}.md".format))
    assert "* Tests passed, by part: decode 478, riva 23; 1 failed; not run: large (" in said[-1]
