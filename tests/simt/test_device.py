"""The CUDA bodies of the wrappers on a real GPU: what holds in every schedule of the emulator holds there."""

import numpy as np
import pytest

from tests.simt.build import HERE, kernel_params
from tests.simt.device import DeviceKernels, architecture, driver
from tests.simt.ptx import nvcc
from tests.simt.test_emulator import (  # noqa: F401
    test_argmin,
    test_asynchronous_copies,
    test_blocks_that_publish_to_each_other,
    test_every_load_store_and_atomic,
    test_hash_table,
    test_named_barriers_hand_a_buffer_over,
    test_prefix_sum,
    test_warp_operations,
    test_work_queue_between_blocks,
    values,
)
from tests.simt.test_emulator import test_cluster_exchange as in_clusters


@pytest.fixture(scope="module")
def kernels() -> DeviceKernels:
    if driver() is None:
        pytest.skip("no CUDA device")
    if nvcc() is None:
        pytest.skip("nvcc is neither on the PATH nor under CUDA_HOME")
    return DeviceKernels(
        *[HERE / "kernels" / f"{name}.cu" for name in ("scan", "tables", "exchange", "access", "costs")]
    )


@pytest.mark.parametrize("cluster", [1, 2, 4])
def test_cluster_exchange(kernels, cluster):
    if cluster > 1 and int(architecture()) < 90:
        pytest.skip("clusters start with compute capability 9.0")
    in_clusters(kernels, cluster)


def test_scores_round_as_the_law_says(kernels):
    rng = np.random.default_rng(0)
    costs, logp, weights = (rng.normal(0, 5, 100_000).astype(np.float32) for _ in range(3))
    costs[:3], logp[3:6] = np.inf, -np.inf
    out = np.zeros_like(costs)
    scale = np.float32(0.7)
    params = kernel_params(costs=(costs,), logp=(logp,), weights=(weights,), out=(out,), acoustic_scale=scale)
    kernels.launch("extend_costs", params, grid=(len(out) + 63) // 64, block=64)
    assert out.tobytes() == ((costs + -(scale * logp)) + weights).tobytes()
