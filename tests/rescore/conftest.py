"""A GPU that is none, as in tests/decode."""

import pytest

from tests.cuda_host.conftest import fake_library  # noqa: F401
from tests.decode.conftest import (
    emulated_gpu,  # noqa: F401
    pytest_itemcollected,  # noqa: F401
)
from tests.decode.small_search import ROOMY


@pytest.fixture
def gpu(emulated_gpu):  # noqa: F811
    """In which nothing grows."""
    emulated_gpu.begin_with(ROOMY)
    return emulated_gpu
