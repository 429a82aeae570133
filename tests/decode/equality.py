"""When two lists of hypotheses are the same: in every byte that a user can see."""

import math

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
        assert np.float64(one.partial_score).tobytes() == np.float64(other.partial_score).tobytes()
        assert (one.reached_final, one.complete) == (other.reached_final, other.complete)
        assert one.text == other.text
        assert one.words == other.words
        assert one.tokens.tobytes() == other.tokens.tobytes()


def as_the_oracle(found, wanted):
    """Asserts that a hypothesis is what an oracle answered; a search that died ranks after all others."""
    assert found.arcs.tolist() == wanted.arcs
    assert -found.partial_score == wanted.total_cost
    assert found.score == (found.partial_score if wanted.complete else -math.inf)
    assert (found.reached_final, found.complete) == (wanted.reached_final, wanted.complete)
