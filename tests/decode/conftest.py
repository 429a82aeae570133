"""A GPU that is none, for tests of the engine that decodes on one."""

import pytest

from arcbeam.gpu.tuned import search_plan
from tests.cuda_host.conftest import fake_library  # noqa: F401
from tests.decode.emulated_gpu import EmulatedGpu
from tests.decode.small_search import ROOMY


def pytest_itemcollected(item):
    """Most tests here search with any scores, of which a decoder warns; what it warns of has tests of its own."""
    item.add_marker(pytest.mark.filterwarnings("ignore:log_probs. expected:UserWarning"))


@pytest.fixture
def emulated_gpu(fake_library, monkeypatch):  # noqa: F811
    """One device of 1 GiB. What the test makes on it must be gone when it returns."""
    gpu = EmulatedGpu(fake_library, monkeypatch)
    yield gpu
    gpu.end()
    fake_library.stop()


@pytest.fixture
def planned_gpu(emulated_gpu):
    emulated_gpu.begin_with(ROOMY)
    return emulated_gpu


@pytest.fixture
def gpu(planned_gpu):
    """Without clusters, of which most blocks only wait, for the emulator's time's sake."""
    planned_gpu.launch_as(search_plan.WIDE)
    return planned_gpu


@pytest.fixture(params=["cpu", "cuda"])
def device(request):
    """A device to decode on; the CUDA one is emulated."""
    if request.param == "cuda":
        request.getfixturevalue("emulated_gpu")
    return request.param
