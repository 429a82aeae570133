# distutils: extra_compile_args = -O3
"""The border to determinisation: compact lattices as arrays."""

import numpy as np

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy
from libcpp.vector cimport vector

STEP_LIMIT = 1 << 24  # a step takes up to 80 bytes
WIDEST = kWidest


cdef extern from "lattice/determinize.hpp" namespace "arcbeam::lattice" nogil:
    const int64_t kWidest

    cdef struct PathCost:
        int64_t graph
        int64_t acoustic

    cdef cppclass Acceptor:
        uint32_t start
        vector[uint32_t] first_arc
        vector[uint32_t] targets
        vector[uint32_t] words
        vector[PathCost] costs
        vector[uint64_t] first_label
        vector[uint32_t] labels
        vector[uint32_t] ends
        vector[PathCost] end_costs
        vector[uint64_t] first_end_label
        vector[uint32_t] end_labels

    cdef cppclass Determinized:
        Acceptor acceptor
        int64_t beam

    Determinized cpp_determinize "arcbeam::lattice::determinize"(const Acceptor&, int64_t beam,
                                                                 uint64_t step_limit) except +


def determinize(arrays, uint32_t start, int64_t beam, *, uint64_t step_limit=STEP_LIMIT):
    """(arrays, beam): determinised as cpu_reference/lattice/determinize.hpp says, whose names `arrays` have.

    Costs are int64 [.., 2]: graph and acoustic. They are trusted: arcs by source, targets of larger numbers, small sums.
    """
    cdef Acceptor given
    cdef Determinized found
    given.start = start
    take[uint32_t](given.first_arc, np.ascontiguousarray(arrays["first_arc"], np.uint32))
    take[uint32_t](given.targets, np.ascontiguousarray(arrays["targets"], np.uint32))
    take[uint32_t](given.words, np.ascontiguousarray(arrays["words"], np.uint32))
    take_costs(given.costs, np.ascontiguousarray(arrays["costs"], np.int64))
    take[uint64_t](given.first_label, np.ascontiguousarray(arrays["first_label"], np.uint64))
    take[uint32_t](given.labels, np.ascontiguousarray(arrays["labels"], np.uint32))
    take[uint32_t](given.ends, np.ascontiguousarray(arrays["ends"], np.uint32))
    take_costs(given.end_costs, np.ascontiguousarray(arrays["end_costs"], np.int64))
    take[uint64_t](given.first_end_label, np.ascontiguousarray(arrays["first_end_label"], np.uint64))
    take[uint32_t](given.end_labels, np.ascontiguousarray(arrays["end_labels"], np.uint32))
    with nogil:
        found = cpp_determinize(given, beam, step_limit)
    cdef Acceptor* made = &found.acceptor
    return {"first_arc": array[uint32_t](made.first_arc, np.uint32), "targets": array[uint32_t](made.targets, np.uint32),
            "words": array[uint32_t](made.words, np.uint32), "costs": costs_array(made.costs),
            "first_label": array[uint64_t](made.first_label, np.uint64),
            "labels": array[uint32_t](made.labels, np.uint32), "ends": array[uint32_t](made.ends, np.uint32),
            "end_costs": costs_array(made.end_costs),
            "first_end_label": array[uint64_t](made.first_end_label, np.uint64),
            "end_labels": array[uint32_t](made.end_labels, np.uint32)}, found.beam


ctypedef fused Value:
    uint32_t
    uint64_t


cdef int take(vector[Value]& into, const Value[::1] values) except -1:
    into.resize(values.shape[0])
    if values.shape[0] > 0:
        memcpy(into.data(), &values[0], values.shape[0] * sizeof(Value))
    return 0


cdef int take_costs(vector[PathCost]& into, const int64_t[:, ::1] values) except -1:
    into.resize(values.shape[0])
    if values.shape[0] > 0:
        memcpy(into.data(), &values[0, 0], values.shape[0] * sizeof(PathCost))
    return 0


cdef array(vector[Value]& values, kind):
    found = np.empty(values.size(), kind)
    cdef Value[::1] into = found
    if values.size() > 0:
        memcpy(&into[0], values.data(), values.size() * sizeof(Value))
    return found


cdef costs_array(vector[PathCost]& values):
    found = np.empty((values.size(), 2), np.int64)
    cdef int64_t[:, ::1] into = found
    if values.size() > 0:
        memcpy(&into[0, 0], values.data(), values.size() * sizeof(PathCost))
    return found
