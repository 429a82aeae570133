"""Tests and sanitizers of a GPU as experiments, with commands that say what they are told to."""

import os
import re
import subprocess
import sys
import time

import pytest

from benchmarks.__main__ import main
from benchmarks.harness import record, registry
from benchmarks.harness.registry import Context
from benchmarks.pack import proof

MAKEFILE = (record.ROOT / "gpu.mk").read_text()
BUILT = ["building for compute capability 90", "decoding on GPU 0"]


@pytest.fixture
def commands(monkeypatch, tmp_path):
    """What was run; what each part says and with which code it ends is put in by a test."""
    said: dict[str, tuple[int, list[str]]] = {}
    ran = []

    def fake(variables):
        ran.append(dict(variables))
        code, lines = said.get("-".join(variables.values()), said.get("any", (0, [])))
        return proof.Ended(code, [*BUILT, *lines])

    monkeypatch.setattr(proof, "make_gpu_test", fake)
    monkeypatch.setattr(proof, "KEPT", tmp_path / "proof")
    monkeypatch.setattr(record, "built_kernels", lambda: {"search": "1" * 64})
    monkeypatch.setattr(record, "tree_kernels", lambda: {"search": "1" * 64})
    monkeypatch.setattr(record, "commit", lambda: "abc")
    monkeypatch.setattr(record, "is_dirty", lambda: False)
    fake.said, fake.ran = said, ran
    return fake


def rows_of_tests(**options):
    return list(registry.load("gpu_tests").run(Context(options=options)))


PASSED = (0, ["...s...", "", "6 passed, 1 skipped in 80.25s (0:01:20)", "gpu-test decode: passed in 84 s"])


def test_what_the_parts_counted(commands):
    commands.said |= {
        "any": PASSED,
        "rescore": (
            2,
            [
                "FAILED tests/gpu/test_rescoring_on_gpu.py::test_one - Wrong",
                "1 failed, 3 passed, 2 errors in 7.5s",
                "gpu-test rescore: failed in 9 s",
                "make: *** [gpu.mk:73: gpu-rescore] Error 1",
            ],
        ),
        "transducer": (2, ["collecting", "no tests ran in 0.02s"]),
        "speech": (2, ["Killed"]),
        "large": (0, ["4 skipped in 1.25s", "gpu-test large: passed in 3 s"]),
    }
    rows = {row["part"]: row for row in rows_of_tests()}
    assert [run["PART"] for run in commands.ran] == list(rows) == list(registry.load("gpu_tests").PARTS)
    passed = rows["decode"]
    assert (passed["passed"], passed["failed"], passed["skipped"]) == (6, 0, 1) and "status" not in passed
    assert passed["last"] == "6 passed, 1 skipped in 80.25s (0:01:20)" and passed["seconds"] >= 0
    failed = rows["rescore"]
    assert (failed["passed"], failed["failed"]) == (3, 3) and record.failed(failed)
    assert failed["last"] == "1 failed, 3 passed, 2 errors in 7.5s"
    assert rows["transducer"]["status"] == "failed: make ended with 2, 0 tests failed"
    assert rows["speech"]["last"] == "Killed" and record.failed(rows["speech"])
    assert rows["large"]["status"] == "missing: every test was skipped"


def test_parts_side_by_side(commands):
    """They keep their order, and none builds anything."""
    commands.said["any"] = PASSED
    rows = rows_of_tests(parts="driver,rescore,transducer", jobs="2")
    assert [row["part"] for row in rows if "status" not in row] == ["driver", "rescore", "transducer"]
    assert all(run["AS_BUILT"] == "1" for run in commands.ran)
    assert "ifndef AS_BUILT" in MAKEFILE


def test_parts_on_several_gpus(commands):
    """Each sees all, its own first; no two have the same first at a time."""
    commands.said["any"] = PASSED
    rows_of_tests(jobs="4", gpus="2")
    seen = {run["CUDA_VISIBLE_DEVICES"] for run in commands.ran}
    assert seen <= {"0,1", "1,0"} and len(commands.ran) == 8
    commands.ran.clear()
    rows_of_tests(again="1")
    assert not any("CUDA_VISIBLE_DEVICES" in run for run in commands.ran)


def test_an_end_that_counts_nothing_has_failed():
    """Also where make was content."""
    assert record.failed(proof.pytest_counts(proof.Ended(0, BUILT)))
    assert record.failed(proof.pytest_counts(proof.Ended(0, ["1 failed, 3 passed in 1.0s"])))
    assert record.failed(proof.pytest_counts(proof.Ended(1, ["3 passed in 1.0s"])))
    assert record.failed(proof.sanitizer_counts(proof.Ended(0, BUILT)))
    assert proof.Ended(0, []).last() == ""


def test_what_passed_is_not_run_again(commands, monkeypatch):
    commands.said |= {"any": PASSED, "speech": (2, ["1 failed in 1.0s"])}
    first = rows_of_tests()
    del commands.said["speech"]
    again = rows_of_tests()
    assert [run["PART"] for run in commands.ran[8:]] == ["speech"]
    assert [row for row in again if row["part"] != "speech"] == [row for row in first if row["part"] != "speech"]
    for change in ("commit", "built_kernels", "is_dirty"):
        before = len(commands.ran)
        with monkeypatch.context() as other:
            if change == "commit":
                other.setattr(record, "commit", lambda: "abd")
            elif change == "is_dirty":
                other.setattr(record, "is_dirty", lambda: True)
            else:
                other.setattr(record, "built_kernels", lambda: {"search": "2" * 64})
                other.setattr(record, "tree_kernels", lambda: {"search": "2" * 64})
            rows_of_tests(parts="driver")
        assert len(commands.ran) == before + 1, change
    rows_of_tests()
    before = len(commands.ran)
    rows_of_tests(again="1")
    assert len(commands.ran) == before + 8


def test_parts_that_were_not_run_say_so(commands):
    commands.said["any"] = PASSED
    rows = rows_of_tests(parts="decode,driver")
    assert [row["part"] for row in rows if row.get("status") == proof.NOT_RUN] == [
        "rescore", "transducer", "ptx", "speech", "large", "riva",
    ]  # fmt: skip
    assert not any("status" in row for row in rows_of_tests(parts="rescore,transducer,ptx,speech,large,riva"))
    with pytest.raises(KeyError, match=r"parts: expected some of driver, .*, got 'decoder'"):
        rows_of_tests(parts="decode,decoder")


def test_other_kernels_than_those_of_the_sources(commands, monkeypatch):
    monkeypatch.setattr(record, "tree_kernels", lambda: {"search": "2" * 64})
    with pytest.raises(RuntimeError, match="were not built from these sources"):
        rows_of_tests()
    assert not commands.ran


def rows_of_sanitizers(**options):
    return list(registry.load("gpu_sanitizers").run(Context(options=options)))


def test_sanitizers(commands):
    clean = ["== memcheck", "decoded 20 utterances", "========= ERROR SUMMARY: 0 errors"]
    hazards = "========= RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)"
    no_hazard = "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"
    commands.said |= {
        "any": (0, [*clean, "gpu-test sanitizer: memcheck plain sanitized passed in 3 s"]),
        "sanitizer-racecheck-plain-sanitized-2of5": (2, [hazards, "failed: (racecheck plain sanitized)"]),
        "sanitizer-racecheck-grow-sanitized-2of5": (0, [no_hazard]),
        "sanitizer-synccheck-grow-sanitized-1of1": (0, ["========= ERROR SUMMARY: 1 error"]),
        "sanitizer-initcheck-plain-sanitized-1of1": (2, ["Traceback", "AssertionError: bytes differ", *clean]),
    }
    rows = {(row["tool"], row["begins"], row["engine"], row["share"]): row for row in rows_of_sanitizers()}
    assert len(rows) == len(commands.ran) == 45 and ("initcheck", "grow", "sanitized", "1of1") not in rows
    first = rows["memcheck", "plain", "sanitized", "1of1"]
    assert commands.ran[0] == {
        "PART": "sanitizer", "TOOLS": "memcheck", "BEGINS": "plain", "SANITIZED": "sanitized",
        "SHARE": "1of1",
    }  # fmt: skip
    assert first["findings"] == 0 and first["last"] == clean[-1] and "status" not in first
    assert {key for key, row in rows.items() if record.failed(row)} == {
        ("racecheck", "plain", "sanitized", "2of5"), ("synccheck", "grow", "sanitized", "1of1"),
        ("initcheck", "plain", "sanitized", "1of1"),
    }  # fmt: skip
    assert rows["racecheck", "plain", "sanitized", "2of5"]["findings"] == 2
    assert rows["racecheck", "grow", "sanitized", "2of5"]["findings"] == 0
    assert len(rows_of_sanitizers(tools="memcheck")) == 45 and len(commands.ran) == 45


def test_parts_are_those_of_make():
    def default(name):
        return tuple(re.search(rf"^{name} \?= (.*)$", MAKEFILE, re.MULTILINE)[1].split())

    sanitizers = registry.load("gpu_sanitizers")
    assert (default("TOOLS"), default("BEGINS"), default("SANITIZED")) == (
        sanitizers.TOOLS, sanitizers.BEGINS, sanitizers.ENGINES,
    )  # fmt: skip
    parts = re.search(r"^GPU_TEST_PARTS := \$\(or \$\(PART\),(.*)\)$", MAKEFILE, re.MULTILINE)[1].split()
    assert parts == [*registry.load("gpu_tests").PARTS, "sanitizer"]
    assert set(proof.KERNELS) == set(record.tree_kernels())
    for name in ("gpu_tests", "gpu_sanitizers"):
        assert registry.kernels(name) == proof.KERNELS and registry.runs_on(name, gpu=True)


def test_a_failure_is_one_of_the_command_and_the_rows_stay(commands, monkeypatch, tmp_path):
    monkeypatch.setattr(record, "gpu", lambda: {"name": "NVIDIA H200"})
    monkeypatch.setattr(record, "built_kernels", lambda: dict.fromkeys(proof.KERNELS, "1" * 64))
    monkeypatch.setattr(record, "tree_kernels", record.built_kernels)
    commands.said |= {"any": PASSED, "large": (2, ["1 failed in 1.0s"])}
    assert main(["gpu_tests", "--machine", "gpu", "--output", str(tmp_path)]) == 1
    head, rows = record.read(tmp_path / "gpu_tests.jsonl")
    assert head["kernels"] == dict.fromkeys(proof.KERNELS, "1" * 64) and rows[0]["passed"] == 6
    assert [row["part"] for row in rows if record.failed(row)] == ["large"]
    commands.said["large"] = PASSED
    assert main(["gpu_tests", "--machine", "gpu", "--output", str(tmp_path)]) == 0


# The command itself, with a stub in the place of make


@pytest.fixture
def stub(monkeypatch, tmp_path):
    def write(text):
        path = tmp_path / "bin" / "make"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")

    return write


def test_the_command(stub, monkeypatch, capsys):
    monkeypatch.setenv("MAKEFLAGS", "-n PART=other")
    stub('echo "$@"; echo "flags:$MAKEFLAGS" >&2; pwd; exit 3')
    ended = proof.make_gpu_test({"PART": "decode"})
    assert ended.code == 3
    assert ended.lines == [
        f"--no-print-directory gpu-test GPU_PYTHON={sys.executable} PART=decode", "flags:", str(record.ROOT),
    ]  # fmt: skip
    assert f"  {record.ROOT}\n" in capsys.readouterr().err


def test_a_command_ends_with_the_process_that_runs_it(stub, tmp_path):
    """And what it has started, which may keep a GPU."""
    stub(f'echo $$ >"{tmp_path}/pid"; echo begun; sleep 100; echo ended')
    code = (
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\n"
        "from benchmarks.pack import proof\n"
        "proof.make_gpu_test({'PART': 'decode'})\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], cwd=record.ROOT, stderr=subprocess.PIPE, text=True)
    assert "begun" in child.stderr.readline()
    child.terminate()
    assert child.wait(30) == 143
    child.stderr.close()
    pid = int((tmp_path / "pid").read_text())
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    raise AssertionError("make still runs")
