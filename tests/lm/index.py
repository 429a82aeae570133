"""The index of a language model as `cuda/shared/lm_view.hpp` has it, made and read number by number."""

from itertools import pairwise

import numpy as np

BLOCK, WIDE = 32, 0x80000000


def index_columns(firsts, backoffs):
    """Columns of where arcs begin, the end included, and of back-off states."""
    offsets, bases, wide = [], [], []
    for block in blocks(firsts):
        is_wide = block[-1] - block[0] > 255
        offsets += [0 if is_wide else first - block[0] for first in block]
        put(block, is_wide, bases, wide)
    steps, backoff_bases, backoff_wide = [], [], []
    for block in blocks(backoffs):
        differences = [0, *(b - a for a, b in pairwise(block))]
        is_wide = not all(0 <= d <= 3 for d in differences)
        steps.append(0 if is_wide else sum(d << 2 * i for i, d in enumerate(differences)))
        put(block, is_wide, backoff_bases, backoff_wide)
    return {
        "first.offsets": np.array(offsets, "u1"),
        "first.bases": np.array(bases, "<u4"),
        "first.wide": np.array(wide, "<u4"),
        "backoff.steps": np.array(steps, "<u8"),
        "backoff.bases": np.array(backoff_bases, "<u4"),
        "backoff.wide": np.array(backoff_wide, "<u4"),
    }


def blocks(numbers):
    return [numbers[i : i + BLOCK] for i in range(0, len(numbers), BLOCK)]


def put(block, is_wide, bases, wide):
    bases.append(WIDE | len(wide) if is_wide else block[0])
    if is_wide:
        wide += [*block, *[block[-1]] * (BLOCK - len(block))]


def first_arc(model, state):
    base = int(model.columns["first.bases"][state // BLOCK])
    if base & WIDE:
        return int(model.columns["first.wide"][base - WIDE + state % BLOCK])
    return base + int(model.columns["first.offsets"][state])


def backoff_state(model, state):
    base = int(model.columns["backoff.bases"][state // BLOCK])
    if base & WIDE:
        return int(model.columns["backoff.wide"][base - WIDE + state % BLOCK])
    steps = int(model.columns["backoff.steps"][state // BLOCK])
    return base + sum(steps >> 2 * i & 3 for i in range(state % BLOCK + 1))
