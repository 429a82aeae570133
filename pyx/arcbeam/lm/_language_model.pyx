"""The border to language models in C++: checks of their columns, and steps from history to history."""

import numpy as np

from libc.stdint cimport uint32_t

from arcbeam.lm._lm_view cimport LmStep, LmView, lm_step, lm_view_of
from arcbeam.lm._status cimport Code, Status

from arcbeam.core.threads import memory_bound_threads
from arcbeam.core.errors import FormatError

ARC = np.dtype([("next_state", "<u4"), ("weight", "<f4")])
STATES_A_BLOCK = 32


cdef extern from "arcbeam/lm/_language_model/validate.hpp" namespace "arcbeam" nogil:
    Status validate_ "arcbeam::validate"(const LmView&, unsigned) except +


cdef extern from *:
    """
    inline std::uint32_t label_of(const arcbeam::LmView& lm, std::uint32_t arc) { return lm.label(arc); }
    inline std::uint32_t first_arc_of(const arcbeam::LmView& lm, std::uint32_t state) { return lm.first_arc(state); }
    inline std::uint32_t backoff_state_of(const arcbeam::LmView& lm, std::uint32_t s) { return lm.backoff_state(s); }
    """
    uint32_t label_of(const LmView&, uint32_t) nogil
    uint32_t first_arc_of(const LmView&, uint32_t) nogil
    uint32_t backoff_state_of(const LmView&, uint32_t) nogil


def validate(columns, about):
    """Raises FormatError unless the columns can be searched without further checks."""
    states, arcs = len(columns["backoff.weights"]), len(columns["arcs"])
    blocks = -(-states // STATES_A_BLOCK)
    sizes = {
        "labels.low": arcs,
        "labels.high": -(-arcs * about["high_bits"] // 32),
        "first.offsets": states + 1,
        "first.bases": states // STATES_A_BLOCK + 1,
        "backoff.steps": blocks,
        "backoff.bases": blocks,
    }
    for name, size in sizes.items():
        if len(columns[name]) != size:
            raise FormatError(f"section {name!r} has {len(columns[name])} elements, expected {size}")
    cdef LmView view = lm_view_of(columns, about)
    cdef unsigned threads = memory_bound_threads()
    cdef Status status
    with nogil:
        status = validate_(view, threads)
    if status.code != Code.kOk:
        raise FormatError(bytes(status.message).decode("utf-8", "replace"))


def walk(columns, about, uint32_t state, const uint32_t[::1] labels):
    """Costs f4 [labels], and the histories u4 that list and that follow each label. Labels are not checked."""
    cdef Py_ssize_t n = labels.shape[0]
    costs, sources, states = np.empty(n, np.float32), np.empty(n, np.uint32), np.empty(n, np.uint32)
    cdef float[::1] cost = costs
    cdef uint32_t[::1] source = sources
    cdef uint32_t[::1] following = states
    cdef LmView view = lm_view_of(columns, about)
    cdef LmStep step
    cdef Py_ssize_t i
    with nogil:
        for i in range(n):
            step = lm_step(view, state, labels[i])
            state = step.next_state
            cost[i], source[i], following[i] = step.cost, step.source, state
    return costs, sources, states


def listed(columns, about):
    """first_arcs uint32[states + 1], labels uint32[arcs], ascending in a state, and backoff_states uint32[states]."""
    cdef LmView view = lm_view_of(columns, about)
    first, backoff = np.empty(view.num_states + 1, np.uint32), np.empty(view.num_states, np.uint32)
    label = np.empty(view.num_arcs, np.uint32)
    cdef uint32_t[::1] first_arcs = first
    cdef uint32_t[::1] labels = label
    cdef uint32_t[::1] backoff_states = backoff
    cdef uint32_t i
    with nogil:
        for i in range(view.num_states):
            first_arcs[i], backoff_states[i] = first_arc_of(view, i), backoff_state_of(view, i)
        first_arcs[view.num_states] = view.num_arcs
        for i in range(view.num_arcs):
            labels[i] = label_of(view, i)
    return first, label, backoff
