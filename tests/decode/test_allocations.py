import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The lines that the program prints."""
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    program = tmp_path_factory.mktemp("allocations") / "program"
    subprocess.run(
        [compiler, "-std=c++17", "-O1", "-I", ROOT / "cuda", "-I", ROOT / "cpu_reference", "-I", ROOT / "pyx",
         ROOT / "tests/decode/allocations.cpp", "-o", program],
        check=True,
    )  # fmt: skip
    own = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}  # a sanitizer's allocator
    return [
        tuple(map(int, line.split())) for line in subprocess.check_output([program], text=True, env=own).splitlines()
    ]


def test_nothing_is_allocated_per_frame(runs):
    """A warm lane allocates for the path and the lattice that it returns (parts of which double as they grow)."""
    assert [frames for frames, *_ in runs[:10]] == [4000, 4000, 40, 400, 4000] * 2
    for frames, allocations, arcs, links in runs[1:5]:
        assert arcs >= frames and links == 0
        assert allocations <= 2 + arcs.bit_length()
    for frames, allocations, arcs, links in runs[6:10]:
        assert arcs >= frames and links >= arcs
        assert allocations <= 20 + 3 * links.bit_length()


def test_a_stream_holds_its_live_paths_and_the_lattice_so_far(runs):
    """What no path needs goes on the way: of 4,000 frames with 1,000 tokens each, whose entries alone take 48 MB."""
    assert [frames for frames, *_ in runs[10:]] == [400, 4000] * 3
    (_, short, *_), (_, long, *_) = runs[10:12]
    assert short <= long < 1.1 * short < 1_000_000
    for _, most, tokens, links in runs[12:]:
        assert tokens > 400 and links >= tokens - 1
        assert most < 400_000 + 30 * (tokens + links)
