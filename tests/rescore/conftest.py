"""A GPU that is none, as in tests/decode."""

from tests.cuda_host.conftest import fake_library  # noqa: F401
from tests.decode.conftest import (
    emulated_gpu,  # noqa: F401
    pytest_itemcollected,  # noqa: F401
)
