"""What nvcc makes of the arithmetic of rescoring: nothing is fused."""

import pytest

from tests.simt.build import ROOT
from tests.simt.ptx import functions, inexact_arithmetic, nvcc, ptx_of

RELAXED = ["--expt-relaxed-constexpr"]  # as the package is built
needs_nvcc = pytest.mark.skipif(nvcc() is None, reason="nvcc is neither on the PATH nor under CUDA_HOME")
SOURCES = sorted((ROOT / "cuda" / "rescore" / "kernels").glob("*.cu"))


@needs_nvcc
@pytest.mark.long
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_nothing_is_fused(source):
    ptx = ptx_of(source, flags=RELAXED)
    entries = list(functions(ptx))  # those that are called, too
    assert f"arcbeam_{source.stem}_wide" in entries
    assert inexact_arithmetic(ptx, entries) == []
