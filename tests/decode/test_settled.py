"""Collections of a token log read what is young alone, and leave what a collection of everything would."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcbeam import _stages
from tests.decode.token_logs import NONE, check_collected, path, random_frame, random_log
from tests.hypothesis_examples import examples
from tests.simt import build
from tests.simt.build import load, schedules

SOURCE = "tests/decode/collect.cu"


def frontier(rows):
    return np.array(rows, dtype=_stages.CANDIDATE)


def appended(entries, rows):
    more = np.zeros(len(rows), _stages.LOG_ENTRY)
    more["source"], more["arc"] = rows["source"], rows["arc"]
    return np.concatenate([entries, more])


@given(st.integers(0, 2**32), st.integers(1, 9), st.integers(1, 3))
def test_the_twin_keeps_ancestors_alone(seed, most, near):
    """Collected with every frame that finds something to drop."""
    rng = np.random.default_rng(seed)
    log, tokens, due, collected = _stages.TokenLog(0), 0, 0, 0
    for number in range(40):
        rows = random_frame(rng, tokens, len(log.entries()), number, most, near)
        before, settled = appended(log.entries(), rows), log.settled
        log.prune(rows)
        tokens = len(rows)
        if len(before) > due:
            check_collected(before, log.entries(), tokens, log.settled)
            due, collected = 2 * len(log.entries()), collected + 1
        else:
            assert log.settled == settled
        assert log.settled >= settled
    assert collected > 1


def rows_of(frame, base, alive):
    """All of one token; each with a rival that dies."""
    return [(float(i), frame, i, base - alive) for i in range(4)]


def test_a_collection_looks_at_what_is_young():
    """One history of all tokens, four entries a frame: none of it is read by two collections."""
    log, tokens, collections, since = _stages.TokenLog(64), 1, 0, 1
    log.prune(frontier([(0.0, NONE, 0, NONE)]))
    for frame in range(8000):
        size, settled = len(log.entries()), log.settled
        log.prune(frontier(rows_of(frame, size, tokens)))
        tokens, since = 4, since + 4
        if log.settled != settled:
            assert size + 4 - settled <= since + 8
            collections, since = collections + 1, 0
    assert collections > 6
    assert log.settled > 4000


def test_rivals_that_never_meet_keep_all_young():
    log, tokens = _stages.TokenLog(64), 2
    log.prune(frontier([(0.0, NONE, 0, NONE)]))
    log.prune(frontier([(0.0, 0, 0, 0), (0.0, 1, 1, 0)]))
    for frame in range(2, 400):
        base = len(log.entries())
        log.prune(frontier([(0.0, 2 * frame + i, i, base - tokens + i) for i in range(2)] + [(9.0, 7, 2, base - 1)]))
        tokens = 3
        assert log.settled <= 1  # the start
    assert len(log.entries()) >= 2 * 398
    ends = [path(log.entries(), len(log.entries()) - 3 + i) for i in range(2)]
    assert [log.entries()["arc"][entry] for entry in ends[1]][:-1] == [2 * f + 1 for f in range(399, 1, -1)] + [1]


# The kernel.


def launch(log, tokens, settled=0, *, block=32, **schedule):
    """What the kernel leaves of a log, how many entries are settled, and the steps that it took."""
    capacity = len(log) + 5
    memory = np.zeros(capacity + (capacity + 31) // 32 + capacity // 16, np.uint64)
    memory[: len(log)] = np.ascontiguousarray(log).view(np.uint64)
    memory[capacity:] = 0xA5A5A5A5A5A5A5A5  # of a collection before
    left = np.zeros(2, np.uint32)
    params = build.kernel_params(
        log=memory, left=left, capacity=np.uint32(capacity), size=np.uint32(len(log)), num_tokens=np.uint32(tokens),
        settled=np.uint32(settled),
    )  # fmt: skip
    steps = load(SOURCE).launch("collect_log", params, block=block, shared_bytes=1024, **schedule)
    return memory[: left[0]].view(_stages.LOG_ENTRY), int(left[1]), steps


def check_kernel(rng, *, frames, most, near, collections=4, **how):
    """A log that is collected several times, each time with what was settled before."""
    log, tokens = random_log(rng, frames, most, near)
    settled = 0
    for number in range(collections):
        left, now, _ = launch(log, tokens, settled, **how)
        assert now >= settled
        check_collected(log, left, tokens, now)
        assert (left[:settled] == log[:settled]).all()
        log, settled = left.copy(), now
        for frame in range(frames):
            rows = random_frame(rng, tokens, len(log), 1000 * (number + 1) + frame, most, near)
            log, tokens = appended(log, rows), len(rows)


def check_a_frame_backwards(**how):
    """Of the path from 3 over 2 to 1, of one frame, nothing is settled, for another path leaves at 3."""
    log = np.array([(NONE, NONE), (2, 1001), (3, 1002), (0, 1003), (1, 2000), (3, 2001)], _stages.LOG_ENTRY)
    left, settled, _ = launch(log, 2, **how)
    check_collected(log, left, 2, settled)
    assert settled == 1


@pytest.mark.kernels
def test_a_frame_backwards():
    check_a_frame_backwards()


@pytest.mark.kernels
@settings(max_examples=examples(100))
@given(st.integers(0, 2**32), st.integers(1, 20), st.integers(1, 9), st.integers(1, 3), st.sampled_from([32, 64, 288]))
def test_the_kernel_keeps_ancestors_alone(seed, frames, most, near, block):
    check_kernel(np.random.default_rng(seed), frames=frames, most=most, near=near, block=block, seed=seed)


@pytest.mark.kernels
def test_schedules():
    for number, schedule in enumerate(schedules()):
        check_kernel(np.random.default_rng(number), frames=30, most=6, near=2, block=64, **schedule)


@pytest.mark.kernels
@given(st.integers(0, 2**32), st.integers(1, 9), st.integers(1, 3))
def test_the_kernel_settles_what_the_twin_settles(seed, most, near):
    rng = np.random.default_rng(seed)
    log, tokens, due = _stages.TokenLog(0), 0, 0
    for number in range(30):
        rows = random_frame(rng, tokens, len(log.entries()), number, most, near)
        before, settled = appended(log.entries(), rows), log.settled
        log.prune(rows)
        tokens = len(rows)
        if len(before) > due:
            left, now, _ = launch(before, tokens, settled)
            assert now == log.settled
            assert left.tobytes() == log.entries().tobytes()
            due = 2 * len(log.entries())


@pytest.mark.kernels
def test_steps_do_not_grow_with_what_is_settled():
    """The same young part after a short history and a long one."""
    young, tokens = random_log(np.random.default_rng(5), 30, 5, 2)
    steps = []
    for history in (64, 64_000):
        log = np.zeros(history, _stages.LOG_ENTRY)
        log["source"], log["arc"] = np.arange(history) - 1, 3
        log["arc"][0] = NONE
        more = young.copy()
        more["source"] = np.where(more["source"] == NONE, history - 1, more["source"] + history)
        more["arc"] += 1_000_000
        log = np.concatenate([log, more])
        _, settled, taken = launch(log, tokens, history, detect_races=False)
        assert settled > history
        steps.append(taken)
    assert steps[1] <= 1.1 * steps[0]
