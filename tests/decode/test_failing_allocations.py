"""Where memory runs out in C++ a call raises MemoryError; the process does not end."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def test_each_allocation_may_fail(tmp_path):
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    allocator = tmp_path / "allocator.so"
    source = HERE / "failing_allocations.cpp"
    subprocess.run([compiler, "-std=c++17", "-O1", "-shared", "-fPIC", source, "-o", allocator], check=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, HERE / "failing_allocations.py"],
        env=os.environ | {"LD_PRELOAD": str(allocator)}, cwd=HERE.parents[1], capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
