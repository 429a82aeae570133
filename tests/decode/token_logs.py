"""Random token logs: frames of a search whose paths meet, die and live side by side, and what is left of them."""

import numpy as np

from arcbeam import _stages

NONE = _stages.NO_SOURCE


def random_frame(rng, tokens, first, number, most, near):
    """CANDIDATE[n]: a frame after `tokens` entries that end at `first`; the first frame has one without a source.

    A source is one of the tokens, of `near` of them in most frames, or another entry of the frame, earlier or later.
    """
    n = int(rng.integers(1, most + 1))
    rows = np.zeros(n, _stages.CANDIDATE)
    rows["arc"] = 1000 * number + np.arange(n)
    order = rng.permutation(n)
    parents = rng.integers(0, tokens, near if rng.random() < 0.8 else tokens) if tokens else []
    for place, slot in enumerate(order):
        if place and (not tokens or rng.random() < 0.4):
            rows["source"][slot] = first + rng.choice(order[:place])
        else:
            rows["source"][slot] = first - tokens + rng.choice(parents) if tokens else NONE
    if not tokens:
        rows["arc"][order[0]] = NONE
    return rows


def random_log(rng, frames, most, near):
    """Entries of that many frames, and how many of them are the last one's."""
    log, tokens = np.zeros(0, _stages.LOG_ENTRY), 0
    for number in range(frames):
        rows = random_frame(rng, tokens, len(log), number, most, near)
        more = np.zeros(len(rows), _stages.LOG_ENTRY)
        more["source"], more["arc"] = rows["source"], rows["arc"]
        log, tokens = np.concatenate([log, more]), len(rows)
    return log, tokens


def path(log, entry):
    """Entries from this one to the first."""
    found = []
    while entry != NONE:
        found.append(entry)
        entry = int(log["source"][entry])
    return found


def ancestors(log, tokens):
    """Of the last entries: what any of them descends from, and what all of them do, themselves included."""
    paths = [set(path(log, i)) for i in range(len(log) - tokens, len(log))]
    return set.union(*paths), set.intersection(*paths)


def check_collected(log, left, tokens, settled):
    """Nothing but the ancestors is left, in order; what is settled is common to all, and all of it but a frame."""
    kept, common = ancestors(log, tokens)
    kept = sorted(kept)
    place = {old: new for new, old in enumerate(kept)} | {NONE: NONE}
    assert left["arc"].tolist() == [log["arc"][old] for old in kept]
    assert left["source"].tolist() == [place[int(log["source"][old])] for old in kept]
    assert {kept[i] for i in range(settled)} <= common
    frame = {old: 0 if log["arc"][old] == NONE else log["arc"][old] // 1000 for old in kept}
    last = max((frame[old] for old in common), default=0)
    assert settled >= sum(frame[old] < last for old in kept)
