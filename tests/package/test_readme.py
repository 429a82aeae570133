"""The example in the README runs as it stands, and finds the words."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def example() -> str:
    (code,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    return code


def test_the_example_is_short():
    assert len([line for line in example().splitlines() if line and not line.startswith("#")]) <= 20


def test_the_example_decodes_the_demo(tmp_path, demo_data):
    pytest.importorskip("kaldifst", reason="kaldifst is not installed: arcbeam[build]")
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
