"""Confidences that are made of several."""

import numpy as np

from libc.stdint cimport int64_t, uint8_t


cdef extern from "common/aggregation.hpp" namespace "arcbeam" nogil:
    cdef enum class Aggregation(uint8_t):
        kMean
        kMin
        kMax
        kProd

    float cpp_aggregated "arcbeam::aggregated"(const float*, size_t, Aggregation)


def aggregated(const float[::1] confidences, const int64_t[::1] begins, const int64_t[::1] ends, str aggregation):
    """float32[ranges]: one confidence for each range ``[begins[i], ends[i])`` within n, 0 for an empty one."""
    cdef Aggregation kind = {"mean": Aggregation.kMean, "min": Aggregation.kMin, "max": Aggregation.kMax,
                             "prod": Aggregation.kProd}[aggregation]
    found = np.empty(begins.shape[0], np.float32)
    cdef float[::1] into = found
    cdef Py_ssize_t i
    for i in range(begins.shape[0]):
        if begins[i] >= ends[i]:
            into[i] = 0
        elif 0 <= begins[i] and ends[i] <= confidences.shape[0]:
            into[i] = cpp_aggregated(&confidences[begins[i]], ends[i] - begins[i], kind)
        else:
            raise IndexError(f"expected ranges from 0 to {confidences.shape[0]}, got {begins[i]} to {ends[i]}")
    return found
