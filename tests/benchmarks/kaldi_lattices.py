"""Lattices of Kaldi's form, from a list of arcs."""

import math

import numpy as np

from arcbeam import KaldiLattice
from arcbeam.lattices.kaldi_lattice import ARC, FINAL


def kaldi_lattice(arcs, ends):
    """Of arcs (source, target, word, cost) from state 0 on, and the cost of each state where a path may end."""
    states = 1 + max([0, *ends, *(target for _, target, _, _ in arcs)])
    weights = [ends.get(state, math.inf) for state in range(states)]
    return KaldiLattice(
        0,
        np.array([(*arc, 0.0) for arc in sorted(arcs)], ARC),
        np.zeros(0, np.int32),
        np.zeros(len(arcs) + 1, np.int64),
        np.array([(weight, weight if weight == math.inf else 0.0) for weight in weights], FINAL),
        np.zeros(0, np.int32),
        np.zeros(states + 1, np.int64),
    )
