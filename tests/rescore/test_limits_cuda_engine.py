"""A model ten times what the GPU may hold of it, and one whose file shrinks while lanes search."""

import os

import numpy as np
import pytest

from arcbeam import CtcDecoder, FormatError, LanguageModel
from tests.decode.language_models import random_model
from tests.rescore.placed import kenlm
from tests.rescore.test_rescore_cuda_engine import BATCH, GRAPH, OPTIONS, SMALL, WORDS, check_same

LARGE = random_model(np.random.default_rng(6), WORDS, 3, share=0.4, cost=lambda r: float(r.gamma(4.0)))


def decoder(device, large=LARGE, **options):
    given = OPTIONS | {"hypotheses_per_state": 3, "unknown_words": "unk", "threads": 2} | options
    return CtcDecoder(GRAPH, language_model=large, graph_language_model=SMALL, device=device, **given)


@pytest.mark.parametrize("times", [10, 100])
@pytest.mark.parametrize("of_kenlm", [False, True])
def test_a_model_many_times_the_budget(gpu, of_kenlm, times):
    large = kenlm() if of_kenlm else LARGE
    size = large.nbytes if of_kenlm else LARGE.info().bytes
    one = decoder("cuda", large, gpu_budget=size // times)
    assert one._search.engine.placement == ("cpu" if of_kenlm else "host-direct")
    wanted = decoder("cpu", large).decode(BATCH)
    for _ in range(2):
        check_same(one.decode(BATCH), wanted)
    assert 0 < one.stats.lookup_misses < one.stats.distinct_lookups, "the budget is the cache's"


class Shrinking:
    """An engine beneath which a file shrinks once the checks before a search are over."""

    def __init__(self, engine, path, size):
        self._engine, self._path, self._size = engine, path, size

    def __getattr__(self, name):
        return getattr(self._engine, name)

    def decode(self, *given, **wanted):
        os.truncate(self._path, self._size)
        return self._engine.decode(*given, **wanted)


@pytest.mark.parametrize("place", ["cpu", "host"])
@pytest.mark.parametrize("size", [0, 4096, 16384])
def test_a_file_that_shrinks_during_a_search(gpu, tmp_path, place, size):
    """The host reads arcs where the file is mapped: what is lost reads as zeros, and no answer is given."""
    path = tmp_path / "large.lm"
    LARGE.save(path)
    assert path.stat().st_size > 4 * 16384
    where = {"device": "cpu"} if place == "cpu" else {"device": "cuda", "arc_cache": 0}
    one = decoder(large=LanguageModel.load(path), placement=place, **where)
    intake = one._search.intake
    intake.engine = Shrinking(intake.engine, path, size)
    with pytest.raises(FormatError, match=rf"the file shrank from \d+ to {size} bytes"):
        one.decode(BATCH)


def test_a_file_that_shrinks_where_the_gpu_has_a_copy(gpu, tmp_path):
    """Nothing is lost, but the file is another: said at the next use all the same."""
    path = tmp_path / "large.lm"
    LARGE.save(path)
    one = decoder("cuda", LanguageModel.load(path), placement="host-direct", arc_cache=0)
    check_same(one.decode(BATCH), decoder("cpu").decode(BATCH))
    os.truncate(path, 4096)
    with pytest.raises(FormatError, match="the file shrank"):
        one.decode(BATCH)
