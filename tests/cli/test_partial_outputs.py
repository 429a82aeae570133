"""What is left of an output when a command breaks off: under another name, and told."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import kaldiio
import numpy as np
import pytest

from tests.cli.conftest import SPOKEN, log_probs_of
from tests.cli.test_process import COMMAND, ENVIRONMENT

GOOD = {name: log_probs_of([int(c) for c in columns]) for name, columns in SPOKEN.items()}
PARTIAL = "out.txt.partial"


def spoiled(folder):
    """Two utterances and then one that is none."""
    bad = GOOD["three"].copy()
    bad[1, 2] = np.nan
    np.savez(folder / "bad.npz", one=GOOD["one"], two=GOOD["two"], three=bad)
    return folder / "bad.npz"


@pytest.mark.parametrize("before", [None, "what was there\n"])
@pytest.mark.parametrize("batch_size", [1, 2, 256])
def test_what_was_done_is_kept_apart(run, tmp_path, before, batch_size):
    out = tmp_path / "out.txt"
    if before is not None:
        out.write_text(before)
    result = run("decode", "graph.arc", spoiled(tmp_path), "-o", out, "--batch-size", batch_size)
    assert result.exit_code == 1
    assert (out.read_text() if out.exists() else None) == before
    assert (tmp_path / PARTIAL).read_text() == "one ah bee\ntwo sea sea\n"
    note, error = result.stderr.splitlines()
    other = "was not written" if before is None else "is unchanged"
    assert note == (
        f"note: stopped early: {out}.partial has what was done, 2 utterances; {out} {other}; the same command with "
        "--resume goes on"
    )
    assert error.startswith("error: ") and "utterance 'three': log_probs: expected finite values" in error
    # the next run, which goes through, leaves nothing of that
    assert run("decode", "graph.arc", "in.npz", "-o", out).exit_code == 0
    assert out.read_text() == "one ah bee\ntwo sea sea\nthree\n"
    assert sorted(os.listdir(tmp_path)) == ["bad.npz", "out.txt"]


@pytest.mark.parametrize("arguments", [["gone.npz"], ["in.npz", "-r", "gone.tsv"]])
def test_nothing_done_leaves_the_file_as_it_was(run, tmp_path, arguments):
    """Also where the input is broken from its beginning."""
    out = tmp_path / "out.txt"
    out.write_text("what was there\n")
    assert run("decode", "graph.arc", *arguments, "-o", out).exit_code == 1
    (tmp_path / "broken.npz").write_bytes(b"PK\3\4 nothing of the kind")
    result = run("decode", "graph.arc", tmp_path / "broken.npz", "-o", out)
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert out.read_text() == "what was there\n"
    assert sorted(os.listdir(tmp_path)) == ["broken.npz", "out.txt"]


def test_an_output_that_cannot_be_written_is_told_before_decoding(run, tmp_path):
    missing = run("decode", "graph.arc", "in.npz", "-o", tmp_path / "gone" / "out.txt")
    assert (missing.exit_code, missing.stderr) == (
        1,
        f"error: {tmp_path}/gone/out.txt: the folder {tmp_path}/gone does not exist\n",
    )
    folder = run("decode", "graph.arc", "in.npz", "-o", tmp_path)
    assert (folder.exit_code, folder.stderr) == (1, f"error: {tmp_path}: expected a file, got a folder\n")


def test_the_standard_output_cannot_be_taken_back(run, tmp_path):
    result = run("decode", "graph.arc", spoiled(tmp_path))
    assert result.stdout == "one ah bee\ntwo sea sea\n"
    assert result.stderr.splitlines()[0] == "note: stopped early: the standard output is incomplete, with 2 utterances"


def test_links_and_modes_stay(run, tmp_path):
    real, out = tmp_path / "real.txt", tmp_path / "out.txt"
    real.write_text("")
    real.chmod(0o600)
    out.symlink_to(real)
    assert run("decode", "graph.arc", "in.npz", "-o", out).exit_code == 0
    assert out.is_symlink() and real.read_text().startswith("one ah bee\n")
    assert real.stat().st_mode & 0o777 == 0o600


def test_pipes_are_written_where_they_are(run, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    said = []
    for source in ("in.npz", spoiled(tmp_path)):
        reader = threading.Thread(target=lambda: said.append((tmp_path / "pipe").read_text()))
        reader.start()
        result = run("decode", "graph.arc", source, "-o", tmp_path / "pipe")
        reader.join()
    assert said == ["one ah bee\ntwo sea sea\nthree\n", "one ah bee\ntwo sea sea\n"]
    assert f"note: stopped early: the output to {tmp_path}/pipe is incomplete, with 2 utterances" in result.stderr
    assert run("decode", "graph.arc", "in.npz", "-o", os.devnull).exit_code == 0
    assert sorted(os.listdir(tmp_path)) == ["bad.npz", "pipe"]


@pytest.fixture
def endless(tmp_path):
    """An index of more than can be decoded before the command is interrupted."""
    kaldiio.save_ark(str(tmp_path / "a.ark"), {"one": GOOD["one"]}, scp=str(tmp_path / "one.scp"))
    where = (tmp_path / "one.scp").read_text().split()[1]
    (tmp_path / "in.scp").write_text("".join(f"u{number} {where}\n" for number in range(1_000_000)))
    return tmp_path / "in.scp"


@contextmanager
def decoding(files, *arguments, out):
    """A command that has begun to write."""
    with subprocess.Popen(
        [*COMMAND, "decode", "graph.arc", *map(str, arguments), "-o", str(out)],
        cwd=files, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        partial = Path(f"{out}.partial")
        try:
            while process.poll() is None and not (partial.exists() and partial.stat().st_size):
                time.sleep(0.02)
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run(files, tmp_path, endless, sent, code):
    out = tmp_path / "out.txt"
    lattices = tmp_path / "lattices.ark"
    with decoding(files, endless, "--batch-size", "1", "--lattice", lattices, out=out) as process:
        process.send_signal(sent)
        assert process.wait(60) == code
        said = process.stderr.read()
    done = (tmp_path / PARTIAL).read_text().splitlines()
    assert 0 < len(done) < 1_000_000
    assert done == [f"u{number} ah bee" for number in range(len(done))]
    assert f"out.txt.partial has what was done, {len(done)} utterance" in said
    assert not out.exists()
    assert [name for name in os.listdir(tmp_path) if "lattices" in name] == ["lattices.ark.partial"]


def test_a_second_run_is_refused(run, files, tmp_path, endless):
    out = tmp_path / "out.txt"
    with decoding(files, endless, "--batch-size", "1", out=out) as process:
        before = (tmp_path / PARTIAL).stat().st_size
        second = run("decode", "graph.arc", "in.npz", "-o", out)
        assert (second.exit_code, second.stdout) == (1, "")
        assert second.stderr == (
            f"error: {out}: another process is writing this file, as {out}.partial; wait until it has ended, or write "
            "to another name\n"
        )
        process.kill()
    killed = (tmp_path / PARTIAL).read_text()
    assert len(killed) >= before and killed == "".join(f"u{n} ah bee\n" for n in range(killed.count("\n")))
    assert run("decode", "graph.arc", "in.npz", "-o", out).exit_code == 0
    assert out.read_text() == "one ah bee\ntwo sea sea\nthree\n"
    assert not (tmp_path / PARTIAL).exists()


LIMITED = """
import resource, sys
from arcbeam.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)),) * 2)
main()
"""


@pytest.mark.parametrize("format", ["text", "ctm"])
def test_a_full_disk(run, files, tmp_path, format):
    """The limit of a file's size stands for it; it lies in the midst of a line."""
    count, out = 1000, tmp_path / "out.txt"
    np.savez(tmp_path / "in.npz", **{f"u{number:0100}": GOOD["one"] for number in range(count)})
    command = ["decode", "graph.arc", str(tmp_path / "in.npz"), "-f", format, "--frame-shift", "0.02", "-o", str(out)]
    assert run(*command).exit_code == 0
    lines, lines_each = out.read_text().splitlines(keepends=True), {"text": 1, "ctm": 2}[format]
    assert len(lines) == count * lines_each and out.stat().st_size > 100_000
    out.unlink()
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, "100001", *command], cwd=files, env=ENVIRONMENT, capture_output=True, text=True
    )
    assert done.returncode == 1
    kept = (tmp_path / PARTIAL).read_text()
    utterances = kept.count("\n") // lines_each
    assert 0 < 100_001 - len(kept) < 300
    assert kept == "".join(lines[: utterances * lines_each])
    note, error = done.stderr.splitlines()
    assert note == (
        f"note: stopped early: {out}.partial has what was done, {utterances} utterances; {out} was not written; "
        "the same command with --resume goes on"
    )
    assert error == f"error: {out}: File too large"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device that is always full")
def test_a_full_device(files):
    for where in ({"stdout": open("/dev/full", "w")}, {"arguments": ["-o", "/dev/full"]}):  # noqa: SIM115 - of a test
        done = subprocess.run(
            [*COMMAND, "decode", "graph.arc", "in.npz", *where.pop("arguments", [])],
            cwd=files, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True, **where,
        )  # fmt: skip
        name = "standard output" if where else "/dev/full"
        assert (done.returncode, done.stderr) == (1, f"error: {name}: No space left on device\n")
