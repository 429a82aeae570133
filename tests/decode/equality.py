"""When two lists of hypotheses are the same: in every byte that a user can see."""

import numpy as np


def same(got, wanted):
    """Asserts it."""
    assert len(got) == len(wanted)
    for one, other in zip(got, wanted, strict=True):
        assert one.arcs.dtype == other.arcs.dtype
        assert one.arcs.flags.c_contiguous
        assert one.arcs.tobytes() == other.arcs.tobytes()
        assert np.float64(one.score).tobytes() == np.float64(other.score).tobytes()
        assert np.float64(one.graph_score).tobytes() == np.float64(other.graph_score).tobytes()
        assert one.reached_final == other.reached_final
        assert one.text == other.text
        assert one.words == other.words
        assert one.tokens.tobytes() == other.tokens.tobytes()
