"""What ``make`` needs on a fresh machine is looked for, and its absence explained."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def interpreter(folder: Path, name: str, body: str) -> None:
    """A program that stands in for a Python interpreter."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def find_python(tmp_path: Path, *names: str) -> subprocess.CompletedProcess:
    for tool in ("bash", "env", "ls"):
        (tmp_path / tool).symlink_to(str(shutil.which(tool)))
    environment = {"PATH": str(tmp_path), "PYENV_ROOT": str(tmp_path / "no-pyenv")}
    return subprocess.run([ROOT / ".ci/find-python", *names], env=environment, capture_output=True, text=True)


def test_the_first_usable_python_wins(tmp_path):
    interpreter(tmp_path, "python3.12", "echo 'shim: python3.12 is not set up' >&2; exit 127")
    interpreter(tmp_path, "python3", f'exec {sys.executable} "$@"')
    got = find_python(tmp_path, "python3.12", "python3.11", "python3")
    assert got.returncode == 0, got.stderr
    assert os.path.samefile(got.stdout.strip(), sys.executable)


def test_no_python_is_said_plainly(tmp_path):
    got = find_python(tmp_path, "python3.12", "python3.11")
    assert got.returncode != 0
    assert "arcbeam needs Python 3.11 or newer" in got.stderr
    assert "python3.12 python3.11" in got.stderr
    assert "apt-get install python3 python3-venv python3-dev" in got.stderr


def test_an_old_python_is_named(tmp_path):
    old = "import sys; sys.version_info = (3, 9, 1); exec(sys.argv.pop(1))"
    interpreter(tmp_path, "python3", f'shift; exec {sys.executable} -c "{old}" "$@"')
    got = find_python(tmp_path, "python3")
    assert got.returncode != 0
    assert "python3 is Python 3.9, and arcbeam needs 3.11 or newer" in got.stderr


def test_a_python_without_venv_is_told_what_to_install(tmp_path):
    bare = "import sys; sys.modules['ensurepip'] = None; exec(sys.argv.pop(1))"
    interpreter(tmp_path, "python3", f'shift; exec {sys.executable} -c "{bare}" "$@"')
    got = find_python(tmp_path, "python3")
    assert got.returncode != 0
    assert "cannot make a virtual environment" in got.stderr
    assert f"apt-get install python3.{sys.version_info.minor}-venv" in got.stderr
