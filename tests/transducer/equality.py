"""When hypotheses are the same: all their bytes are."""

import numpy as np

ARRAYS = ("tokens", "frames", "log_probs", "durations", "confidence")


def as_bytes(hypotheses, first=0):
    """All that there is, as bytes; frames are counted from `first`."""
    return [_with_lists(one, first) if one.posterior is not None else _with_state(one, first) for one in hypotheses]


def _with_state(one, first):
    """Of greedy search."""
    state = one.state
    arrays = [(array.dtype, array.shape, array.tobytes()) for array in (state.hidden, state.cell, state.context)]
    return _tokens(one, first), arrays, state.skip, state.frames - first, state.boosting_tree, state.ngram_lm


def _with_lists(one, first):
    """Of beam search."""
    nbest = None if one.nbest is None else [_with_lists(entry, first) for entry in one.nbest]
    parts = one.network_score, one.lm_score, one.boost_score, one.lodr_score, one.ilm_score
    return _tokens(one, first), one.score, one.posterior, parts, nbest


def _tokens(one, first):
    found = {name: getattr(one, name) for name in ARRAYS} | {"frames": one.frames - first}
    return {n: None if array is None else (array.dtype, array.shape, array.tobytes()) for n, array in found.items()}


def lists_as_bytes(hypotheses):
    """All that n-best lists have, as bytes; the hypothesis itself first."""
    return [[_entry_as_bytes(entry) for entry in (one, *one.nbest)] for one in hypotheses]


def _entry_as_bytes(entry):
    arrays = [entry.tokens, entry.frames, entry.log_probs, entry.durations, entry.confidence]
    found = [None if array is None else (array.dtype, array.tobytes()) for array in arrays]
    parts = [entry.lm_score, entry.boost_score, entry.lodr_score, entry.ilm_score]
    return [*found, np.array([entry.score, entry.posterior, *parts]).tobytes()]


def same(found, wanted):
    """Asserts it, and names the first utterance that differs."""
    assert len(found) == len(wanted)
    for i, (one, other) in enumerate(zip(as_bytes(found), as_bytes(wanted), strict=True)):
        assert one == other, f"utterance {i}"


def lattices_as_bytes(hypotheses):
    """What engines have kept for lattices, as bytes: frames and depths of tokens, and arcs."""
    return [[array.tobytes() for array in kept_for_lattice(one)] for one in hypotheses if one.error is None]


def kept_for_lattice(hypothesis):
    """(frames, depths, arcs) of an utterance that was decoded with ``lattice=True``."""
    return hypothesis._make_lattice.args[1].__self__.lattice(hypothesis._place)
