"""Large, long and odd lattices: limits count steps and say so, nothing overflows, Ctrl-C ends a batch."""

import math
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from arcbeam.ctc.lattice import _lattice
from arcbeam.ctc.lattice.answers import AnswerRequest
from tests.lattice.oracle import Paths
from tests.lattice.random_lattices import chain, grid_lattice, random_lattice
from tests.lattice.test_answers import entries_of, of
from tests.lattice.writing import writing


def parallel(steps, ways, slack=0.0):
    """Each step has one token, which `ways` links with words of their own lead to, the first without cost."""
    lattice, _ = chain([0] * steps)
    source = np.repeat(np.arange(steps), ways)
    links = np.zeros(len(source), lattice["links"].dtype)
    links["source"], links["target"], links["arc"] = source, source + 1, np.arange(len(source))
    links["slack"] = np.where(np.arange(len(source)) % ways == 0, 0.0, slack)
    lattice["links"] = links
    lattice["first_link"] = np.minimum(np.arange(steps + 2) * ways, len(links)).astype(np.uint32)
    lattice["best"] = np.arange(0, len(links), ways, dtype=np.uint32)
    return lattice, (1 + np.arange(len(links)) % ways).astype(np.uint32)


def test_a_long_chain_neither_overflows_nor_recurses():
    lattice, words = parallel(100_000, 2, slack=0.25)
    batch = of(lattice)
    found = _lattice.posteriors(batch, 0)
    share = 1 / (1 + math.exp(-0.25))
    np.testing.assert_allclose(found.links[::2], share, rtol=1e-11)
    assert found.log_total == pytest.approx(-100_000 * math.log(share), rel=1e-12)
    assert found.log_total > 710  # beyond what a float64 holds
    entries = _lattice.nbest(batch, 0, words, 3)
    assert [len(path) for _, _, path in entries_of(entries, words)] == [100_000] * 3
    assert entries.costs.tolist() == [3.5, 3.75, 3.75] and not entries.truncated
    assert (entries.posteriors == 0.0).all()  # below what a float64 holds
    confidences, truncated = _lattice.confidences(batch, 0, words)
    np.testing.assert_allclose(confidences, share, rtol=1e-14)
    assert not truncated  # each token is a pinch
    assert len(_lattice.mbr(batch, 0, words).words) == 100_000


def test_equal_paths_share_evenly():
    lattice, words = parallel(3000, 4)
    batch = of(lattice)
    assert (_lattice.posteriors(batch, 0).links == 0.25).all()
    assert (_lattice.confidences(batch, 0, words)[0] == 0.25).all()
    found = entries_of(_lattice.nbest(batch, 0, words, 5), words)
    ends = [(1, 1), (1, 2), (1, 3), (1, 4), (2, 1)]  # the hypothesis, then by word ids
    assert [spoken for spoken, _, _ in found] == [(1,) * 2998 + end for end in ends]
    assert _lattice.mbr(batch, 0, words).sausage()[7] == [(1, 0.25), (2, 0.25), (3, 0.25), (4, 0.25)]


@pytest.mark.parametrize("scale", [0.0, 1e-6, 50.0, 1e6, 1e300])
def test_scales_small_and_large_give_shares(scale):
    rng = np.random.default_rng(3)
    for _ in range(20):
        lattice, words = random_lattice(rng, steps=5)
        batch = of(lattice)
        links = _lattice.posteriors(batch, 0, scale=scale).links
        entries = _lattice.nbest(batch, 0, words, 4, scale=scale).posteriors
        confidences, _ = _lattice.confidences(batch, 0, words, scale=scale)
        risk = _lattice.mbr(batch, 0, words, scale=scale)
        for found in (links, entries, confidences, risk.confidences, risk.posteriors):
            assert ((found >= 0) & (found <= 1)).all()
        if scale == 0.0:
            paths = Paths(lattice, words)
            expected = [len(paths.by_words[spoken]) / len(paths.paths) for spoken, *_ in paths.nbest(4, 0.0)]
            np.testing.assert_allclose(entries, expected, rtol=1e-13)


@pytest.fixture(scope="module")
def large():
    lattice, words = grid_lattice(np.random.default_rng(4), steps=5000, tokens=50, degree=4)
    assert len(words) == 1_000_000
    return of(lattice), words, lattice


def test_a_lattice_of_a_million_links_has_answers(large):
    batch, words, lattice = large
    found = _lattice.nbest(batch, 0, words, 10)
    assert len(found.costs) == 10 and not found.truncated
    assert found.costs.tolist()[1:] == sorted(found.costs.tolist()[1:])
    assert len({spoken for spoken, _, _ in entries_of(found, words)}) == 10
    confidences, truncated = _lattice.confidences(batch, 0, words)
    assert truncated and len(confidences) == np.count_nonzero(words[lattice["best"]])  # 4 * 10^8 distances
    assert ((confidences >= 0) & (confidences <= 1)).all() and confidences.mean() > 0.01
    whole, truncated = _lattice.confidences(batch, 0, words, step_limit=1 << 40)
    assert not truncated
    np.testing.assert_allclose(confidences, whole, atol=1e-6)
    assert _lattice.posteriors(batch, 0).links.min() >= 0.0
    assert len(_lattice.prune(batch, 0, 2.0)[0].arrays(0)["links"]) < 1_000_000


MEMORY = """
import resource, sys
import numpy as np
from arcbeam.ctc.lattice import _lattice
from arcbeam.ctc.lattice.answers import AnswerRequest
from tests.lattice.random_lattices import grid_lattice
from tests.lattice.test_answers import of
lattice, words = grid_lattice(np.random.default_rng(4), steps=20_000, tokens=4, degree=2)
batch, reference = of(lattice), np.ones(3000, np.uint32)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
_lattice.oracle(batch, 0, words, reference, room=1 << 24)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


def test_fewest_errors_of_long_speech_take_little_memory():
    """All rows of 80,000 tokens and 3,000 words would be 916 MiB."""
    found = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True, timeout=300)
    assert int(found.stdout) < 120


GIVEN_BACK = """
from arcbeam.ctc.lattice import _lattice
from arcbeam.ctc.lattice.answers import AnswerRequest
from tests.lattice.test_answers import of
from tests.lattice.test_limits import parallel
from tests.lattice.writing import writing
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 >> 20
lattice, words = parallel(20, 2, slack=0.25)
batch, engine = of(lattice), _lattice.AnswerEngine(writing(words), threads=1)
before = resident()
found = engine.answers(batch, AnswerRequest(nbest=1 << 20))
assert len(found.costs) == 1 << 20
during = resident()
del found
print(during - before, resident() - before)
"""


def test_memory_of_a_long_list_is_given_back():
    found = subprocess.run([sys.executable, "-c", GIVEN_BACK], capture_output=True, text=True, check=True, timeout=300)
    during, after = map(int, found.stdout.split())
    assert during > 80 and after < 40


def test_a_limited_search_gives_what_it_found(large):
    batch, words, lattice = large
    found = _lattice.nbest(batch, 0, words, 10, step_limit=1000)
    entries = entries_of(found, words)
    assert found.truncated and 1 < len(entries) <= 10 and len({spoken for spoken, _, _ in entries}) == len(entries)
    links = lattice["links"]
    for _, cost, path in entries:
        steps = links[list(path)]
        assert steps["source"][0] == 0 and (steps["source"][1:] == steps["target"][:-1]).all()
        end = steps["target"][-1] - lattice["first_token"][-2]
        assert cost == lattice["total_cost"] + (float(steps["slack"].sum()) + float(lattice["end_extras"][end]))
    assert ((found.posteriors >= 0) & (found.posteriors <= 1)).all()
    again = _lattice.nbest(batch, 0, words, 10, step_limit=1000)
    assert again.costs.tobytes() == found.costs.tobytes() and again.links.tobytes() == found.links.tobytes()


def test_a_search_may_keep_a_quarter_of_its_steps():
    lattice, words = parallel(12, 2, slack=0.25)
    batch = of(lattice)
    entries = 2**12
    assert len(_lattice.nbest(batch, 0, words, entries).costs) == entries
    assert not _lattice.nbest(batch, 0, words, entries, step_limit=1 << 17).truncated
    assert _lattice.nbest(batch, 0, words, entries, step_limit=1 << 14).truncated  # which 2^13 steps do not reach


def test_limits_are_said_in_a_batch(large):
    batch, words, _ = large
    engine = _lattice.AnswerEngine(writing(words), threads=1)
    found = engine.answers(batch, AnswerRequest(nbest=5, confidence=True, mbr=True, step_limit=1000))
    assert found.nbest_truncated.tolist() == [True] and found.confidence_truncated.tolist() == [True]
    assert found.mbr.truncated.tolist() == [True] == [found.mbr.of(0).truncated]


def test_a_band_that_is_wide_enough_changes_nothing():
    lattice, words = grid_lattice(np.random.default_rng(6), steps=600, tokens=8, degree=3)
    batch = of(lattice)
    whole = _lattice.mbr(batch, 0, words, scale=4.0)
    banded = _lattice.mbr(batch, 0, words, scale=4.0, step_limit=1)
    assert banded.truncated and not whole.truncated
    assert banded.words.tolist() == words[lattice["best"]][words[lattice["best"]] > 0].tolist()
    np.testing.assert_allclose(
        _lattice.confidences(batch, 0, words, step_limit=1)[0], _lattice.confidences(batch, 0, words)[0], rtol=1e-9
    )


def test_ctrl_c_ends_a_batch(large):
    _, words, lattice = large
    batch = of(*[lattice] * 20)
    engine = _lattice.AnswerEngine(writing(words), threads=1)
    main = threading.main_thread().ident

    def interrupt():
        time.sleep(0.2)
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        engine.answers(batch, AnswerRequest(nbest=10, confidence=True))
    thread.join()
    small, spoken = chain([1, 2])
    assert len(_lattice.AnswerEngine(writing(spoken), threads=1).answers(of(small), AnswerRequest()).costs) == 1
    assert len(engine.answers(of(small), AnswerRequest()).costs) == 1
