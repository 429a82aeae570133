"""Memory of the host that kernels read in place: managed where the device allows it, else pinned, and given back."""

import pytest
from arcbeam._far_memory import FarBuffer

from arcbeam import CudaOutOfMemoryError, _cuda, _far_memory

ADVICE = [["advise", "3", "-1"], ["advise", "5", "0"]]


def test_managed_memory_that_stays_on_the_host(fake):
    far = FarBuffer(_cuda.context_of(0))
    assert (far.capacity, far.managed, far.host_address) == (0, False, 0)
    far.resize(100)
    assert far.capacity >= 100 and far.managed and far.host_address % (1 << 21) == 0
    assert fake.journal() == ADVICE
    assert (fake.living("managed"), fake.living("pinned")) == (1, 0)
    with pytest.raises(ValueError, match="expected no memory yet"):
        far.resize(200)
    del far
    assert fake.living("managed") == 0


@pytest.mark.parametrize(("call", "nth"), [("managed_allocate", 1), ("managed_advise", 1), ("managed_advise", 2)])
def test_pinned_where_it_is_refused(fake, call, nth):
    far = FarBuffer(_cuda.context_of(0))
    fake.fail(call, 801, nth)
    far.resize(100)
    assert far.capacity >= 100 and not far.managed and far.host_address
    assert (fake.living("managed"), fake.living("pinned")) == (0, 1)


def test_pinned_where_the_device_cannot(fake):
    fake.library.fake_unmanaged(0)
    far = FarBuffer(_cuda.context_of(0))
    far.resize(100)
    assert not far.managed and fake.living("managed") == 0


def test_more_than_the_host_has_is_refused_by_pinning(fake, monkeypatch):
    monkeypatch.setattr(_far_memory, "host_bytes_left", lambda: 99)
    far = FarBuffer(_cuda.context_of(0))
    fake.fail("host_allocate", 2)
    with pytest.raises(CudaOutOfMemoryError, match="4,096 bytes of host memory can be pinned"):
        far.resize(100)
    assert fake.living("managed") == 0
    monkeypatch.setattr(_far_memory, "host_bytes_left", lambda: None)  # a system that does not tell
    far.resize(100)
    assert far.managed


def test_none_for_nothing(fake):
    far = FarBuffer(_cuda.context_of(0))
    far.resize(0)
    assert (far.capacity, fake.living("managed"), fake.living("pinned")) == (0, 0, 0)
