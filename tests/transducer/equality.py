"""When hypotheses are the same: all their bytes are."""

import numpy as np


def as_bytes(hypotheses):
    """All that there is, as bytes."""
    parts = []
    for one in hypotheses:
        state = one.state
        arrays = [one.tokens, one.frames, one.log_probs, state.hidden, state.cell, state.context]
        arrays += [array for array in (one.durations, one.confidence) if array is not None]
        parts.append([(array.dtype, array.shape, array.tobytes()) for array in arrays] + [state.skip, state.frames])
        parts[-1] += [state.boosting_tree, state.ngram_lm]
    return parts


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
