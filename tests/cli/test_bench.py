"""``arcbeam bench``: finds the checkout, hands the options on, and says so where there is none."""

import subprocess
import sys

import pytest
from typer.main import get_command

from arcbeam.cli import bench
from arcbeam.cli.app import app
from arcbeam.cli.console import Failure
from benchmarks import __main__ as harness
from benchmarks.harness import record, registry

FAKE = "def main(argv, program):\n    print(program, *argv)\n    return {code}\n"


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout whose benchmarks only tell what they were given; the exit code is ``checkout.code``."""
    monkeypatch.delenv(bench.ENVIRONMENT, raising=False)
    for name in [n for n in sys.modules if n.split(".")[0] == "benchmarks"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def make(name="source", code=0):
        root = tmp_path / name
        (root / "benchmarks").mkdir(parents=True)
        (root / "pyx" / "arcbeam").mkdir(parents=True)
        (root / "benchmarks" / "__init__.py").touch()
        (root / "benchmarks" / "__main__.py").write_text(FAKE.format(code=code))
        return root

    yield make
    for name in [n for n in sys.modules if n.split(".")[0] == "benchmarks"]:
        del sys.modules[name]


def test_options_reach_the_benchmarks(run, checkout, tmp_path, monkeypatch):
    root = checkout()
    monkeypatch.setenv(bench.ENVIRONMENT, str(root))
    result = run(
        "bench", "wer", "stages", "--repeats", "3", "--utterances", "7", "--set", "a=b", "--set", "c=", "--machine",
        "gpu", "--resume", "--output", tmp_path / "o",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert result.stdout.split() == [
        "arcbeam", "bench", "wer", "stages", "--repeats", "3", "--utterances", "7", "--set", "a=b", "--set", "c=",
        "--machine", "gpu", "--resume", "--output", str(tmp_path / "o"),
    ]  # fmt: skip
    assert "measuring the arcbeam that is installed in" in result.stderr


def test_defaults_are_left_to_the_benchmarks(run, checkout):
    assert run("bench", "--list", "--checkout", checkout()).stdout.split() == ["arcbeam", "bench", "--list"]


def test_the_exit_code_is_theirs(run, checkout):
    assert run("bench", "x", "--checkout", checkout(code=2)).exit_code == 2


def test_where_a_checkout_is_looked_for(checkout, tmp_path, monkeypatch):
    around, named = checkout("around"), checkout("named")
    (around / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(around / "a" / "b")
    assert bench.find_checkout() == around
    assert bench.find_checkout(named) == named
    monkeypatch.setenv(bench.ENVIRONMENT, str(named))
    assert bench.find_checkout() == named
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(bench.ENVIRONMENT, str(tmp_path))
    with pytest.raises(Failure, match="expected a checkout of arcbeam"):
        bench.find_checkout()


def test_an_installed_package_says_what_to_do(run, tmp_path, monkeypatch):
    monkeypatch.delenv(bench.ENVIRONMENT, raising=False)
    monkeypatch.setattr(bench.resources, "files", lambda name: tmp_path / "site" / "arcbeam")
    result = run("bench", "--list")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: the benchmarks are part of arcbeam's source")
    assert "--checkout" in result.stderr


def test_the_real_benchmarks_in_a_process_of_their_own():
    command = [sys.executable, "-m", "arcbeam.cli", "bench", "--list"]
    done = subprocess.run(command, cwd=record.ROOT, capture_output=True, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[0] for line in lines] == registry.names()
    assert ["gk23_table3", "cpu,", "gpu", "GK23"] in [line[:4] for line in lines]


def test_bad_options(run):
    assert run("bench", "wer", "--set", "beam").exit_code == 2
    assert run("bench", "wer", "--repeats", "0").exit_code == 2


def test_both_commands_have_the_same_options():
    ours = {o for p in get_command(app).commands["bench"].params for o in p.opts if o.startswith("--")}
    with pytest.raises(SystemExit):
        harness.main(["--no-such-option"])
    text = harness.parser("x").format_help()
    theirs = {word.strip("[],") for word in text.split() if word.strip("[],").startswith("--")}
    assert ours - {"--checkout", "--debug"} == theirs - {"--help"}


def test_bad_arguments_of_the_harness(capsys):
    for arguments, message in [
        (["wer", "--set", "beam"], "expected KEY=VALUE, got 'beam'"),
        (["wer", "--repeats", "0"], "expected a number of at least 1, got '0'"),
    ]:
        with pytest.raises(SystemExit) as left:
            harness.main(arguments)
        assert left.value.code == 2
        assert message in capsys.readouterr().err


def test_missing_data_is_one_line(monkeypatch, capsys, tmp_path):
    class Experiment:
        TITLE, COLUMNS = "x", []

        def run(self, context):
            from benchmarks.data.datasets import DataMissing

            raise DataMissing("set ARCBEAM_DATA")
            yield

    monkeypatch.setattr(registry, "load", lambda name: Experiment())
    assert harness.main(["x", "--output", str(tmp_path)]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == "x: set ARCBEAM_DATA"
    assert list(tmp_path.iterdir()) == []
