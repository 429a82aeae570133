import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_nothing_is_allocated_per_frame(tmp_path):
    """A warm lane allocates for the path and the lattice that it returns (parts of which double as they grow)."""
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    program = tmp_path / "allocations"
    subprocess.run(
        [compiler, "-std=c++17", "-O1", "-I", ROOT / "cuda", "-I", ROOT / "cpu_reference", "-I", ROOT / "pyx",
         ROOT / "tests/decode/allocations.cpp", "-o", program],
        check=True,
    )  # fmt: skip
    runs = [tuple(map(int, line.split())) for line in subprocess.check_output([program], text=True).splitlines()]
    assert [frames for frames, *_ in runs] == [4000, 4000, 40, 400, 4000] * 2
    for frames, allocations, arcs, links in runs[1:5]:
        assert arcs >= frames and links == 0
        assert allocations <= 2 + arcs.bit_length()
    for frames, allocations, arcs, links in runs[6:]:
        assert arcs >= frames and links >= arcs
        assert allocations <= 20 + 3 * links.bit_length()
