"""What nvcc makes of the arithmetic of transducers: fused where fmaf is written, and nowhere else."""

import re

import pytest

from tests.simt.build import ROOT
from tests.simt.ptx import functions, inexact_arithmetic, nvcc, ptx_of

FOLDER = ROOT / "cuda" / "transducer"
PRECISIONS = ("float32", "bfloat16")
ENTRIES = {
    FOLDER / f"{unit}.cu": [f"arcbeam_transducer_{name}_{p}" for p in PRECISIONS for name in names]
    for unit, names in {
        "transducer": ("project", "kept", "many"),
        "transducer_beam": ("kept_beam", "many_beam"),
        "transducer_beam_fused": ("kept_fused_beam", "many_fused_beam"),
        "transducer_beam_lattice": ("kept_lattice_beam", "many_lattice_beam"),
        "transducer_fused": ("kept_fused", "many_fused"),
    }.items()
}
PROJECT_BFLOAT16 = "arcbeam_transducer_project_bfloat16"
needs_nvcc = pytest.mark.skipif(nvcc() is None, reason="nvcc is neither on the PATH nor under CUDA_HOME")

# An explicit fmaf is this instruction. So is one that the front end contracts; but then it leaves the sums and products
# that it did not contract without .rn, for ptxas to contract, which inexact_arithmetic finds.
FUSED = re.compile(r": fma\.rn\.f32 ")


@pytest.mark.long
@needs_nvcc
@pytest.mark.parametrize("source", ENTRIES, ids=lambda path: path.stem)
def test_nothing_is_fused_but_what_says_so(source):
    ptx = ptx_of(source)
    found = inexact_arithmetic(ptx, ENTRIES[source])
    assert [line for line in found if not FUSED.search(line)] == []
    for entry in ENTRIES[source]:
        on_tensor_cores = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32" in functions(ptx)[entry]
        assert on_tensor_cores == entry.endswith("bfloat16")
        # A projection on tensor cores has no other products.
        assert any(line.startswith(f"{entry}: fma.rn.f32") for line in found) == (entry != PROJECT_BFLOAT16)
        assert "add.rn.f32" in functions(ptx)[entry]
    assert re.search(r"\bdiv\.(?!rn)\w+\.f32|\bdiv\.f32|\b(?:sin|cos|ex2|lg2|rcp|rsqrt|sqrt|tanh)\.", ptx) is None
