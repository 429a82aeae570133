"""When hypotheses are the same: all their bytes are."""


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


def same(found, wanted):
    """Asserts it, and names the first utterance that differs."""
    assert len(found) == len(wanted)
    for i, (one, other) in enumerate(zip(as_bytes(found), as_bytes(wanted), strict=True)):
        assert one == other, f"utterance {i}"
