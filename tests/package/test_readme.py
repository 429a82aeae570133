"""The examples in the README run as they stand, and find the words."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("kaldifst", reason="kaldifst is not installed: arcbeam[build]")

ROOT = Path(__file__).resolve().parents[2]


def example(language: str = "python") -> str:
    (code,) = re.findall(rf"^```{language}\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    return code


def test_the_example_is_short():
    assert len([line for line in example().splitlines() if line and not line.startswith("#")]) <= 20


def test_the_example_decodes_the_demo(tmp_path, demo_data):
    (tmp_path / "data").symlink_to(ROOT / "data")
    got = subprocess.run([sys.executable, "-c", example()], cwd=tmp_path, capture_output=True, text=True)
    assert got.returncode == 0, got.stderr
    references = dict(line.split("\t") for line in (demo_data / "reference.tsv").read_text().splitlines())
    decoded = dict(re.findall(r"^(\S+) +-?[\d.]+  (.*)$", got.stdout, re.MULTILINE))
    assert decoded.keys() == references.keys()
    # The language model may miss a rare word; most utterances it gets to the letter.
    assert sum(decoded[name] == references[name] for name in references) >= 8, got.stdout
    times = re.findall(r"^ *([\d.]+) s to +([\d.]+) s  (\S+)$", got.stdout, re.MULTILINE)
    assert " ".join(word for _, _, word in times) == decoded[next(iter(decoded))]
    assert all(float(start) < float(end) for start, end, _ in times)


def test_the_commands_decode_the_demo(tmp_path):
    for package in ("typer", "rich", "jiwer"):
        pytest.importorskip(package, reason=f"{package} is not installed: arcbeam[cli]")
    (tmp_path / "data").symlink_to(ROOT / "data")
    output = []
    for line in example("console").splitlines():
        program, *arguments = line.split()
        assert program == "arcbeam"
        command = [sys.executable, "-m", "arcbeam.cli", *arguments]
        got = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert got.returncode == 0, (line, got.stderr)
        output.append(got.stdout + got.stderr)
    assert "arcs" in output[1]
    assert "goforward go forward ten meters" in output[2]
    promised = re.search(r"word error rate: ([\d.]+) %", (ROOT / "README.md").read_text())
    measured = re.search(r"WER ([\d.]+) %", output[2])
    assert promised and measured and f"{float(measured[1]):.1f}" == promised[1]
    assert re.search(r"^goforward \S+ [\d.]+ [\d.]+ meters", output[3], re.MULTILINE)
