"""What nvcc makes of the arithmetic of the search: nothing is fused."""

import re

import pytest

from tests.simt.build import ROOT
from tests.simt.ptx import functions, inexact_arithmetic, nvcc, ptx_of

RELAXED = ["--expt-relaxed-constexpr"]  # as the package is built
SOURCE = ROOT / "cuda" / "decode" / "kernels" / "search.cu"
OTHERS = sorted(set(SOURCE.parent.glob("*.cu")) - {SOURCE})
SHAPES = ("wide", "dense", "cluster")
needs_nvcc = pytest.mark.skipif(nvcc() is None, reason="nvcc is neither on the PATH nor under CUDA_HOME")


@needs_nvcc
@pytest.mark.parametrize(  # with clusters, without them, the newest
    "architecture", ["90", "80", pytest.param("120", marks=pytest.mark.long)]
)
def test_nothing_is_fused(architecture):
    ptx = ptx_of(SOURCE, architecture, flags=RELAXED)
    bodies = functions(ptx)  # entries, and what they call
    assert {f"arcbeam_search_{shape}" for shape in SHAPES} <= set(bodies)
    assert inexact_arithmetic(ptx, list(bodies)) == []
    for shape in SHAPES:
        assert "mul.rn.f32" in bodies[f"arcbeam_search_{shape}"]
        assert "add.rn.f32" in bodies[f"arcbeam_search_{shape}"]


@needs_nvcc
@pytest.mark.long
@pytest.mark.parametrize("source", OTHERS, ids=lambda source: source.stem)
def test_nothing_is_fused_where_there_are_lattices(source):
    ptx = ptx_of(source, flags=RELAXED)
    bodies = list(functions(ptx))
    assert {f"arcbeam_{source.stem}_{shape}" for shape in SHAPES} <= set(bodies)
    assert inexact_arithmetic(ptx, bodies) == []


@needs_nvcc
def test_contraction_is_found():
    contracted = ptx_of(SOURCE, flags=[*RELAXED, "-fmad=true"])
    for shape in SHAPES:
        assert inexact_arithmetic(contracted, [f"arcbeam_search_{shape}"]) != []


@needs_nvcc
def test_what_is_shared_stays_known():
    """A lane whose address is taken lies in memory, and all its arrays are then reached by addresses of any kind."""
    ptx = ptx_of(SOURCE, "90", flags=RELAXED)
    for shape in ("wide", "dense"):
        body = functions(ptx)[f"arcbeam_search_{shape}"]
        assert len(re.findall(r"\b(?:ld|st)\.shared", body)) > 300
