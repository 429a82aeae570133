"""What nvcc makes of the arithmetic of rescoring: nothing is fused."""

import pytest

from tests.simt.build import ROOT
from tests.simt.ptx import functions, inexact_arithmetic, nvcc, ptx_of

RELAXED = ["--expt-relaxed-constexpr"]  # as the package is built
SOURCES = ROOT / "cuda" / "rescore"


@pytest.mark.long
@pytest.mark.skipif(nvcc() is None, reason="nvcc is neither on the PATH nor under CUDA_HOME")
@pytest.mark.parametrize(
    "name", ["rescore", "asking", "asking_arcs", "bucketed", "boosted", "boosted_rescore", "new_words"]
)
def test_nothing_is_fused(name):
    source = SOURCES / f"{name}.cu"
    ptx = ptx_of(source, flags=RELAXED)
    entries = list(functions(ptx))  # those that are called, too
    assert f"arcbeam_{name}_wide" in entries
    assert inexact_arithmetic(ptx, entries) == []
    assert inexact_arithmetic(ptx_of(source, flags=[*RELAXED, "-fmad=true"]), entries) != []
