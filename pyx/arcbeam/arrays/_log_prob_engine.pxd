"""The part that the CPU engines for log-probs share: how a batch is taken in, decoded and answered."""

from libcpp.vector cimport vector

from arcbeam.arrays._log_probs cimport LogProbs
from arcbeam._pooled_engine cimport PooledEngine


cdef class LogProbEngine(PooledEngine):
    cdef int start(self, vector[LogProbs] batch) except -1
    cdef list bad(self)
    cdef list answers(self)
    cdef dict work(self)
