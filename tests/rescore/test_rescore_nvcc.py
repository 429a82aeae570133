"""What nvcc makes of the arithmetic of rescoring: nothing is fused."""

import pytest

from tests.simt.build import ROOT
from tests.simt.ptx import functions, inexact_arithmetic, nvcc, ptx_of

RELAXED = ["--expt-relaxed-constexpr"]  # as the package is built
SOURCE = ROOT / "cuda" / "rescore" / "rescore.cu"


@pytest.mark.skipif(nvcc() is None, reason="nvcc is neither on the PATH nor under CUDA_HOME")
def test_nothing_is_fused(tmp_path):
    ptx = ptx_of(SOURCE, tmp_path / "rescore.ptx", flags=RELAXED)
    entries = list(functions(ptx))  # those that are called, too
    assert {"arcbeam_rescore_wide", "arcbeam_rescore_dense"} <= set(entries)
    assert inexact_arithmetic(ptx, entries) == []
    assert inexact_arithmetic(ptx_of(SOURCE, tmp_path / "fused.ptx", flags=[*RELAXED, "-fmad=true"]), entries) != []
