"""A GPU that is none, for tests of the transducer engine that decodes on one."""

import pytest

from tests.cuda_host.conftest import fake_library  # noqa: F401
from tests.transducer.emulated_gpu import EmulatedGpu


@pytest.fixture
def gpu(fake_library, monkeypatch):  # noqa: F811
    """One device of 1 GiB. What the test makes on it must be gone when it returns."""
    gpu = EmulatedGpu(fake_library, monkeypatch)
    yield gpu
    gpu.end()
    fake_library.stop()
