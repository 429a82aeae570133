"""Experiments on a GPU run in children, which may fail, and end with the command."""

import os
import signal
import subprocess
import sys
import time

import pytest

from benchmarks.adapters import gpu
from benchmarks.data import datasets


def test_children_end_with_a_command_that_is_ended(tmp_path):
    """As `timeout` does it: the handler of the command must not be theirs, and none may stay behind."""
    code = f"""
import runpy, sys, time
from benchmarks.adapters import gpu
from benchmarks.harness import registry, record
def child():
    yield {{"n": 1}}
    import os, pathlib
    pathlib.Path({str(tmp_path / "child")!r}).write_text(str(os.getpid()))
    yield {{"n": 2}}
    time.sleep(60)
class Experiment:
    COLUMNS, TAKES, ON_GPU = [registry.Column("n", "n")], {{}}, False
    run = staticmethod(lambda context: gpu.rows_or_failure({{}}, child))
registry.load = lambda name: Experiment
registry.summary = lambda name: name
sys.argv[1:] = ["some", "--output", {str(tmp_path)!r}]
runpy.run_module("benchmarks", run_name="__main__")
"""
    command = subprocess.Popen(
        [sys.executable, "-c", code], cwd=datasets.ROOT, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    partial = tmp_path / "some.partial.jsonl"
    for _ in range(600):
        if partial.exists() and partial.read_text().count("\n") == 3:
            break
        time.sleep(0.1)
    command.terminate()
    said = command.communicate(timeout=30)
    assert command.returncode == 143, said
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "child").read_text()), 0)
    assert partial.read_text().count("\n") == 3 and not (tmp_path / "some.jsonl").exists()


def rows_of_a_child(how):
    yield {"n": 1}
    if how == "raises":
        raise ValueError("so it is")
    if how == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "hangs":
        time.sleep(60)
    yield {"n": 2}


def test_rows_of_a_child():
    assert list(gpu.isolated(rows_of_a_child, "ends")) == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize(
    ("how", "telling"),
    [("raises", "ValueError: so it is"), ("dies", "the process ended with -9"), ("hangs", "nothing came for 0.5 s")],
)
def test_a_child_that_fails_leaves_a_row(how, telling, capsys, monkeypatch):
    with pytest.raises(gpu.ChildFailed, match=telling):
        list(gpu.isolated(rows_of_a_child, how, limit_s=0.5))
    monkeypatch.setattr(gpu, "isolated", lambda *a: iter_failing(telling))
    assert list(gpu.rows_or_failure({"graph": "g"}, rows_of_a_child, how)) == [
        {"graph": "g", "status": f"failed: {telling}"}
    ]
    assert telling in capsys.readouterr().err


def iter_failing(text):
    raise gpu.ChildFailed(f"{text}\nand a traceback")
    yield
