"""The part that the CPU engines for log-probs share: how a batch is taken in, decoded and answered."""

from libc.stdint cimport int64_t, uint32_t
from libcpp.vector cimport vector

from arcbeam.arrays._log_probs cimport LogProbs
from arcbeam.arrays._input_checks cimport InputChecks
from arcbeam.core._pooled_engine cimport PooledEngine


cdef class LogProbEngine(PooledEngine):
    cdef tuple decode_now(self, const int64_t[:, ::1] utterances, uint32_t columns, InputChecks checks)
    cdef int start(self, vector[LogProbs] batch) except -1
    cdef list bad(self)
    cdef object answers(self)
    cdef dict work(self)
