"""The border to language models in C++: checks of their columns, and steps from history to history."""

import numpy as np

from libc.stdint cimport uint32_t
from libcpp.string cimport string

from arcbeam.lm._lm_view cimport LmStep, LmView, lm_step, lm_view_of

from arcbeam.threads import memory_bound_threads
from arcbeam.errors import FormatError

ARC = np.dtype([("next_state", "<u4"), ("weight", "<f4")])
STATES_A_BLOCK = 32


cdef extern from "common/status.hpp" namespace "arcbeam" nogil:
    cdef enum class Code(int):
        kOk

    cdef cppclass Status:
        Code code
        string message


cdef extern from "arcbeam/lm/_language_model/validate.hpp" namespace "arcbeam" nogil:
    Status validate_ "arcbeam::validate"(const LmView&, unsigned) except +


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
