"""A graph for tests that need the words of its arcs alone."""

import numpy as np

from arcbeam import Graph


def writing(words):
    """A graph of one state whose arc i writes words[i]."""
    zeros = np.zeros(len(words), np.int32)
    arcs = (zeros, zeros, zeros + 1, np.asarray(words, np.int32), zeros)
    return Graph.from_arcs(arcs, start=0, finals={0: 0.0}, num_states=1, num_columns=1)
