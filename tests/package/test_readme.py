"""The examples in the README run as they stand, and find the words."""

import itertools
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.front.models import write_arpa

pytest.importorskip("kaldifst", reason="kaldifst is not installed: .[build]")

ROOT = Path(__file__).resolve().parents[2]


README = (ROOT / "README.md").read_text(encoding="utf-8")


def examples(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def commands() -> list[str]:
    return [line for block in examples("console") for line in block.splitlines() if line.startswith("arcbeam ")]


def run(command: str, folder: Path) -> str:
    for package in ("typer", "rich", "jiwer"):
        pytest.importorskip(package, reason=f"{package} is not installed: .[cli]")
    arguments = [sys.executable, "-m", "arcbeam.cli", *shlex.split(command)[1:]]
    got = subprocess.run(arguments, cwd=folder, capture_output=True, text=True)
    assert got.returncode == 0, (command, got.stderr)
    return got.stdout + got.stderr


def test_it_is_short():
    opening, code = examples("python")
    assert README.splitlines()[2] == "```python" and len(opening.splitlines()) == 4
    assert len([line for line in code.splitlines() if line]) <= 10
    before, table, after = re.split("<!--.*-->\n", README)
    assert len((before + after).splitlines()) <= 90 and len(table.splitlines()) <= 20


def test_the_two_commands_are_named():
    assert re.search(r"^make demo ", README, re.MULTILINE) and re.search(r"^make test ", README, re.MULTILINE)


def test_the_demo_is_decoded(tmp_path, demo_data):
    (tmp_path / "data").symlink_to(ROOT / "data")
    build, decode, *_ = commands()
    run(build, tmp_path)
    output = run(decode, tmp_path)
    assert "goforward go forward ten meters" in output
    promised = re.search(r"word error rate: ([\d.]+) %", README)
    measured = re.search(r"WER ([\d.]+) %", output)
    assert promised and measured and f"{float(measured[1]):.1f}" == promised[1]

    _, code = examples("python")
    environment = os.environ | {"ARCBEAM_CACHE": str(tmp_path / "cache")}
    got = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert got.returncode == 0, got.stderr
    references = dict(line.split("\t") for line in (demo_data / "reference.tsv").read_text().splitlines())
    decoded = dict(re.findall(r"^(\S+) +-?[\d.]+  (.*)$", got.stdout, re.MULTILINE))
    assert decoded.keys() == references.keys()
    # The language model may miss a rare word; most utterances it gets to the letter.
    assert sum(decoded[name] == references[name] for name in references) >= 8, got.stdout


@pytest.fixture
def said(tmp_path, demo_data, monkeypatch):
    """What the first recording says; its log-probs, the labels and an ARPA of the demo's words lie in the folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ARCBEAM_CACHE", str(tmp_path / "cache"))
    texts = dict(line.split("\t") for line in (demo_data / "reference.tsv").read_text().splitlines())
    words = sorted({word for text in texts.values() for word in text.split()})
    for name in ("3gram.arpa", "3gram.arpa.gz"):
        write_arpa(tmp_path / name, words)
    (tmp_path / "tokens.txt").write_text((demo_data / "tokens.txt").read_text())
    archive = np.load(demo_data / "log_probs.npz")
    np.save(tmp_path / "utterance.npy", archive["log_probs"][: archive["lengths"][0]])
    return texts[str(archive["ids"][0])]


def test_the_opening_lines(said, capsys):
    opening, _ = examples("python")
    exec(compile(opening, "README.md", "exec"), {"log_probs": np.load("utterance.npy")})
    assert capsys.readouterr().out == said + "\n"


def test_files_of_ones_own_are_decoded(said, tmp_path):
    """Log-probs as .npy, tokens and ARPA, as the README has them; the answer is in words with times."""
    _, _, build, decode = commands()
    run(build, tmp_path)
    lines = [line.split() for line in run(decode, tmp_path).splitlines() if line.startswith("utterance ")]
    assert [line[4] for line in lines] == said.split()
    assert all(0 <= float(one[2]) < float(two[2]) for one, two in itertools.pairwise(lines))
