"""nvcc takes the very files that the emulator runs, for every architecture, and fuses nothing of a score."""

import numpy as np
import pytest

from tests.simt.build import HERE, LONG, kernel_params, load
from tests.simt.ptx import ARCHITECTURES, compile_all, functions, inexact_arithmetic, nvcc, ptx_of

KERNELS = sorted((HERE / "kernels").glob("*.cu"))
needs_nvcc = pytest.mark.skipif(nvcc() is None, reason="nvcc is neither on the PATH nor under CUDA_HOME")


@needs_nvcc
@pytest.mark.parametrize("source", KERNELS, ids=lambda path: path.stem)
def test_every_architecture_compiles(source, tmp_path):
    compile_all(source, tmp_path / "kernels.fatbin", ARCHITECTURES if LONG else ("80", "90"))
    assert (tmp_path / "kernels.fatbin").stat().st_size > 1000


@needs_nvcc
def test_scores_are_not_fused():
    ptx = ptx_of(HERE / "kernels" / "costs.cu")
    assert "mul.rn.f32" in functions(ptx)["extend_costs"]
    assert inexact_arithmetic(ptx, ["extend_costs"]) == []


@needs_nvcc
def test_fused_scores_are_found():
    source = HERE / "kernels" / "costs.cu"
    ptx = ptx_of(source)
    (found,) = inexact_arithmetic(ptx, ["extend_costs", "extend_fused"])
    assert found.startswith("extend_fused: fma.rn.f32")
    contracted = ptx_of(source, flags=["-fmad=true"])
    assert inexact_arithmetic(contracted, ["extend_costs"]) != []
    fast = ptx_of(source, flags=["-ftz=true"])
    assert any(".ftz." in line for line in inexact_arithmetic(fast, ["extend_costs"]))


def test_emulated_scores_round_as_the_law_says():
    rng = np.random.default_rng(0)
    costs, logp, weights = (rng.normal(0, 5, 300).astype(np.float32) for _ in range(3))
    out = np.zeros_like(costs)
    scale = np.float32(0.7)
    params = kernel_params(costs=(costs,), logp=(logp,), weights=(weights,), out=(out,), acoustic_scale=scale)
    kernels = load(HERE / "kernels" / "costs.cu")
    kernels.launch("extend_costs", params, grid=5, block=64)
    assert out.tobytes() == ((costs + -(scale * logp)) + weights).tobytes()
    kernels.launch("extend_fused", params, grid=5, block=64)
    exact = costs.astype(np.float64) - np.float64(scale) * logp
    assert np.array_equal(out, exact.astype(np.float32))
