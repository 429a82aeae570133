"""The border to the confidences of frames: addresses of log-probs in, an array out."""

import numpy as np

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libcpp cimport bool as cbool
from libcpp.utility cimport move
from libcpp.vector cimport vector

from arcbeam.core._confidence cimport Confidence, confidence_of
from arcbeam.core._pooled_engine cimport AnyEngine, PooledEngine
from arcbeam.arrays._log_probs cimport LogProbs, batch_of


cdef extern from "frame_confidence/frames.hpp" namespace "arcbeam::frame_confidence" nogil:
    cdef struct Query:
        LogProbs log_probs
        const Confidence* measure
        float* into

    cdef enum class Outcome(uint8_t):
        kDone
        kOutOfMemory
        kCancelled

    cdef cppclass Answer:
        Outcome outcome

    cdef cppclass Engine(AnyEngine):
        Engine(size_t threads, cbool portable) except +
        void start(vector[Query]) except +
        const vector[Answer]& results()


cdef class FrameConfidenceEngine(PooledEngine):
    """Threads that measure frames; calls take turns. `portable`: no vector instructions (the same bytes), for tests."""

    cdef Engine* engine
    cdef Confidence measure
    cdef cbool portable

    def __cinit__(self, *, size_t threads, cbool portable=False):
        self.threads, self.portable = threads, portable
        self.ready()

    cdef AnyEngine* new_pool(self) except NULL:
        self.engine = new Engine(self.threads, self.portable)
        return self.engine

    def __dealloc__(self):
        self.close()

    def confidences(self, const int64_t[:, ::1] utterances, uint32_t columns, measure):
        """float32[frames], in [0, 1]. `utterances`: int64[batch, 4]: address, row stride in values, frames, float16."""
        cdef vector[LogProbs] batch = batch_of(utterances, columns)
        cdef vector[Query] queries
        cdef size_t frames = 0, i
        for i in range(batch.size()):
            frames += batch[i].frames
        found = np.empty(frames, np.float32)
        cdef float[::1] into = found
        cdef float* at = &into[0] if frames else NULL
        with self.decoding_lock():
            self.ready()
            self.measure = confidence_of(measure)
            for i in range(batch.size()):
                queries.push_back(Query(batch[i], &self.measure, at))
                if at != NULL:
                    at += batch[i].frames
            self.engine.start(move(queries))
            self.finish()
            for i in range(batch.size()):
                if self.engine.results()[i].outcome == Outcome.kOutOfMemory:
                    raise MemoryError(f"out of memory for the confidences of the frames of utterance {i}")
        return found
