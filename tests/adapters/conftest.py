"""What tests of the doors for other libraries' models share: a cache of their own, and a language model."""

import pytest

from tests.front.models import write_arpa


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ARCBEAM_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def lm(tmp_path):
    pytest.importorskip("kaldifst", reason="kaldifst is not installed: .[build]")
    return write_arpa(tmp_path / "3gram.arpa")
