"""The border to the costs of frames: addresses of log-probs in, arrays out."""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libcpp.vector cimport vector

from arcbeam.arrays._log_probs cimport LogProbs, batch_of


cdef extern from "decode/acoustic.hpp" namespace "arcbeam::twin" nogil:
    cdef cppclass Acoustic:
        void begin(float scale, float blank_penalty, int32_t blank_column)


cdef extern from "arcbeam/ctc/align/_frame_costs/frame_costs.hpp" namespace "arcbeam::align" nogil:
    cdef struct Sums:
        double costs
        double magnitudes

    vector[Sums] c_smallest_sums "arcbeam::align::smallest_sums"(
        const vector[LogProbs]& batch, const uint8_t* reads, const float* star, const Acoustic& costs
    )
    void c_log_probs_along "arcbeam::align::log_probs_along"(
        const vector[LogProbs]& batch, const int32_t* columns, float* into
    )


def smallest_sums(
    const int64_t[:, ::1] log_probs, const uint8_t[:, ::1] reads, const float[::1] star, float scale, float penalty,
    int32_t blank,
):
    """float64[utterances, 2]: the sums of the smallest costs of frames, and of their magnitudes; blank: -1 for none."""
    cdef vector[LogProbs] batch = batch_of(log_probs, <uint32_t> reads.shape[1])
    cdef vector[Sums] sums
    cdef Acoustic costs
    cdef size_t i
    if reads.shape[0] != log_probs.shape[0] or star.shape[0] != log_probs.shape[0] or blank >= reads.shape[1]:
        raise ValueError(f"expected rows for {log_probs.shape[0]} utterances, got {reads.shape[0]} and {star.shape[0]}")
    found = np.empty((log_probs.shape[0], 2))
    cdef double[:, ::1] into = found
    if batch.size():
        costs.begin(scale, penalty, blank)
        with nogil:
            sums = c_smallest_sums(batch, &reads[0, 0], &star[0], costs)
        for i in range(sums.size()):
            into[i, 0], into[i, 1] = sums[i].costs, sums[i].magnitudes
    return found


def log_probs_along(const int64_t[:, ::1] log_probs, uint32_t num_columns, const int32_t[::1] columns):
    """float32[frames of all utterances]: the log-probs of a path that reads these columns."""
    cdef vector[LogProbs] batch = batch_of(log_probs, num_columns)
    cdef size_t frames = 0, i
    for i in range(batch.size()):
        frames += batch[i].frames
    if <size_t> columns.shape[0] != frames:
        raise ValueError(f"expected the columns of {frames} frames, got {columns.shape[0]}")
    found = np.empty(frames, np.float32)
    cdef float[::1] into = found
    if frames:
        with nogil:
            c_log_probs_along(batch, &columns[0], &into[0])
    return found
