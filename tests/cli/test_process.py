"""The command as its own process: exit codes, signals, pipes, missing packages."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import arcbeam

COMMAND = [sys.executable, "-m", "arcbeam.cli"]
PACKAGE = os.path.dirname(os.path.dirname(arcbeam.__file__))
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([PACKAGE, os.environ.get("PYTHONPATH", "")])}


def run(*arguments, cwd, command="arcbeam.cli", **settings):
    settings = {"env": ENVIRONMENT, "capture_output": True, "text": True, "timeout": 120, **settings}
    return subprocess.run([sys.executable, "-m", command, *map(str, arguments)], cwd=cwd, **settings)


def test_decode(files):
    result = run("decode", "graph.arc", "in.npz", cwd=files)
    assert result.returncode == 0
    assert result.stdout.splitlines() == ["one ah bee", "two sea sea", "three"]
    assert len(result.stderr.splitlines()) == 1  # no progress bar where nobody looks


def test_the_package_is_the_command(files, tmp_path):
    assert run("--version", cwd=files, command="arcbeam").stdout == run("--version", cwd=files).stdout != ""
    assert run("decode", "graph.arc", "in.npz", cwd=files, command="arcbeam").stdout.startswith("one ah bee\n")
    (tmp_path / "typer").mkdir()
    (tmp_path / "typer" / "__init__.py").write_text("raise ModuleNotFoundError")
    path = os.pathsep.join([str(tmp_path), ENVIRONMENT["PYTHONPATH"]])
    missing = run("--version", cwd=files, command="arcbeam", env={**ENVIRONMENT, "PYTHONPATH": path})
    assert (missing.returncode, missing.stdout) == (1, "")
    assert missing.stderr.startswith("error: the arcbeam command needs the package typer")


def test_exit_codes(files):
    assert run("--version", cwd=files).returncode == 0
    error = run("decode", "gone.arc", "in.npz", cwd=files)
    assert (error.returncode, error.stdout, error.stderr) == (1, "", "error: gone.arc: No such file or directory\n")
    assert run("decode", cwd=files).returncode == 2


@pytest.mark.parametrize("command", ["decode", "stream"])
def test_utf8_whatever_the_locale(files, tmp_path, command):
    np.savez(tmp_path / "u.npz", **{"straße-ü": np.load(files / "in.npz")["one"]})
    plain = {**ENVIRONMENT, "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    result = run(command, "graph.arc", tmp_path / "u.npz", cwd=files, env=plain, text=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "straße-ü ah bee\n".encode()


def test_reader_that_goes_away(files, tmp_path):
    np.savez(tmp_path / "many.npz", **{f"u{n:05d}" * 20: np.zeros((0, 4), np.float32) for n in range(3000)})
    with subprocess.Popen(
        [*COMMAND, "decode", "graph.arc", str(tmp_path / "many.npz")],
        cwd=files, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        process.stdout.read(1)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 141


@pytest.mark.parametrize(
    ("arguments", "closed", "code", "printed", "said"),
    [
        ("decode graph.arc in.npz -o out.txt", ">&-", 0, "", "wrote out.txt: 3 utterances\n"),
        ("decode graph.arc in.npz -o out.txt", "<&- 2>&-", 0, "", ""),
        ("decode graph.arc in.npz", ">&-", 1, "", "error: standard output: expected a file, a pipe or a terminal"),
        ("decode graph.arc in.npz", "2>&-", 0, "one ah bee\ntwo sea sea\nthree\n", ""),
        ("decode graph.arc ark:-", "<&-", 1, "", "error: standard input: expected a file, a pipe or a terminal"),
        ("stream graph.arc -", "<&-", 1, "", "error: standard input: expected a file, a pipe or a terminal"),
        ("info graph.arc", ">&-", 1, "", "error: standard output: expected a file, a pipe or a terminal"),
        ("--version", ">&-", 1, "", "error: standard output: expected a file, a pipe or a terminal"),
        ("decode gone.arc in.npz", "2>&-", 1, "", ""),
    ],
)
def test_closed_streams(files, arguments, closed, code, printed, said):
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND, *arguments.split()]
    result = subprocess.run(command, cwd=files, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stdout) == (code, printed) and result.stderr.startswith(said)
    assert bool(result.stderr) == bool(said)
    assert not arguments.endswith("out.txt") or (files / "out.txt").read_text() == "one ah bee\ntwo sea sea\nthree\n"


def test_interrupt(files, tmp_path):
    fifo = tmp_path / "never.scp"
    os.mkfifo(fifo)
    with subprocess.Popen(
        [*COMMAND, "decode", "graph.arc", str(fifo)], cwd=files, env=ENVIRONMENT, stderr=subprocess.PIPE
    ) as process:
        try:
            writer = open_when_read(fifo, process)  # from here on the command waits for a line that never comes
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
            assert process.stderr.read() == b""
            os.close(writer)
        finally:
            process.kill()


def open_when_read(fifo, process):
    while process.poll() is None:
        try:
            return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            time.sleep(0.02)
    raise AssertionError(process.stderr.read())


def test_completion(files):
    def complete(*words):
        line = {"_ARCBEAM_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
        return run(cwd=files, env={**ENVIRONMENT, **line}).stdout.split()

    assert complete("arcbeam", "de") == ["decode", "demo"]
    assert complete("arcbeam", "decode", "--acou") == ["--acoustic-scale"]
    assert complete("arcbeam", "decode", "--format", "t") == ["text", "trn"]


def test_missing_packages(files):
    (files / "text.ark").write_text("x  [\n 0 0 0 0 ]\n")
    for package, arguments, purpose in [
        ("typer", ["--version"], "the arcbeam command needs the package typer"),
        ("rich", ["--version"], "the arcbeam command needs the package rich"),
        (
            "kaldiio",
            ["decode", "graph.arc", "text.ark"],
            "a compressed Kaldi matrix, or one as text, needs the package kaldiio",
        ),
        (
            "jiwer",
            ["decode", "graph.arc", "in.npz", "-r", "reference.tsv"],
            "a word error rate needs the package jiwer",
        ),
    ]:
        script = f"import sys; sys.modules[{package!r}] = None; from arcbeam.cli import main; main()"
        result = subprocess.run(
            [sys.executable, "-c", script, *arguments], cwd=files, env=ENVIRONMENT, capture_output=True, text=True
        )
        assert result.returncode == 1, (package, result.stderr)
        assert result.stderr.startswith(f"error: {purpose}, which ")
        assert result.stderr.endswith(
            ": pip install typer rich\n" if purpose.startswith("the") else f": pip install {package}\n"
        )
        assert result.stdout == ""


def test_importing_the_command_is_light():
    script = (
        "import sys, arcbeam.cli.app; "
        "print(sorted({'numpy', 'jiwer', 'kaldiio', 'kaldifst', 'sentencepiece', 'torch'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", script], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"
