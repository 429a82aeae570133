import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from arcbeam import _stages

NONE = _stages.NO_SOURCE


def frontier(rows):
    return np.array(rows, dtype=_stages.CANDIDATE)


def test_by_hand():
    log = _stages.TokenLog(1000)
    tokens, best = log.prune(frontier([(2.5, NONE, 7, NONE), (1.5, 3, 9, 0)]))
    assert best == 1.5
    assert tokens.tolist() == [(7, 1.0), (9, 0.0)]
    assert log.entries().tolist() == [(NONE, NONE), (0, 3)]


def paths(entries, alive):
    found = []
    for i in range(len(entries) - alive, len(entries)):
        path = []
        while i != NONE:
            path.append(int(entries["arc"][i]))
            i = int(entries["source"][i])
        found.append(path)
    return found


@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(0, 40))
def test_collection_changes_no_path(seed, width, collect_above):
    """The same frames into a log that is collected all the time and into one that never is."""
    rng = np.random.default_rng(seed)
    small, large = _stages.TokenLog(collect_above), _stages.TokenLog(1 << 20)
    alive = 0
    for frame in range(25):
        n = int(rng.integers(1, width + 1))
        # Sources as ranks: within the tokens of the last frame, or an earlier or later slot of this one (epsilon).
        back = rng.integers(0, alive, n) if frame else None
        epsilon = rng.random(n) < 0.3 if frame else np.zeros(n, bool)
        epsilon[0] = False
        for log in (small, large):
            base = len(log.entries())
            sources = np.full(n, NONE, dtype=np.int64) if frame == 0 else base - alive + back
            sources[epsilon] = base  # the first slot of this frame
            rows = np.zeros(n, dtype=_stages.CANDIDATE)
            rows["source"], rows["arc"] = sources, frame * 100 + np.arange(n)
            rows["arc"] = NONE if frame == 0 else rows["arc"]
            log.prune(rows)
        alive = n
        assert paths(small.entries(), alive) == paths(large.entries(), alive)
    assert len(small.entries()) <= len(large.entries())


def test_the_log_stays_small_when_rivals_die():
    log = _stages.TokenLog(64)
    log.prune(frontier([(0.0, NONE, 0, NONE)]))
    for frame in range(5000):
        base = len(log.entries())
        alive = 1 if frame == 0 else 4
        rows = [(float(i), frame, i, base - alive) for i in range(4)]  # all descend from the first token
        log.prune(frontier(rows))
    # What is alive is one path of 5000; without collection there would be 20 000 entries.
    assert len(log.entries()) < 11_000
