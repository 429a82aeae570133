"""Graphs that peer tests share; built once into the cache of the benchmarks."""

import pytest

from benchmarks.data import datasets, graphs


@pytest.fixture(scope="session")
def char_3gram(arcbeam_data):
    """The 3-gram of books over letters: own file and OpenFst file (minutes to build, kept in .cache)."""
    pytest.importorskip("kaldifst", reason="kaldifst builds the graph: pip install '.[build,peers]'")
    assert datasets.data_folder() == arcbeam_data
    return graphs.get("char-3gram")
