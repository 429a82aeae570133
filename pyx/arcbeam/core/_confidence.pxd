"""Measures of confidence, as engines of the CPU take them."""

from libc.stdint cimport uint8_t
from libcpp cimport bool as cbool


cdef extern from "transducer/confidence.hpp" namespace "arcbeam::transducer" nogil:
    cdef enum class Statistic "arcbeam::transducer::Confidence::Statistic"(uint8_t):
        kNone
        kLargest
        kWeighted
        kPower
        kLogPower

    cdef cppclass Confidence:
        Statistic statistic
        cbool exponential
        float alpha
        float factor
        float offset
        float scale
        float shift


cdef inline Confidence confidence_of(measure) except *:
    """Of an arcbeam.core.confidence.Measure."""
    cdef Confidence made
    made.statistic = {"largest": Statistic.kLargest, "weighted": Statistic.kWeighted, "power": Statistic.kPower,
                      "log power": Statistic.kLogPower}[measure.statistic]
    made.exponential = measure.exponential
    made.alpha, made.factor, made.offset = measure.alpha, measure.factor, measure.offset
    made.scale, made.shift = measure.scale, measure.shift
    return made
