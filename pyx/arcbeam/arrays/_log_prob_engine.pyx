"""The part that the CPU engines for log-probs share: how a batch is taken in, decoded and answered."""

from libc.stdint cimport int64_t, uint32_t
from libcpp.vector cimport vector

from arcbeam.arrays._log_probs cimport LogProbs, batch_of
from arcbeam.arrays._input_checks cimport InputChecks
from arcbeam.core._pooled_engine cimport PooledEngine


cdef class LogProbEngine(PooledEngine):
    """A subclass starts its threads on a batch, and reads out what they found."""

    def decode(self, const int64_t[:, ::1] utterances, uint32_t columns, bint on_host=True, InputChecks checks=None):
        """Decodes a batch: (answers, counters, bad), `bad` a list of (utterance, frame, column) without answers."""
        # `utterances`: int64[batch, 4]: address, row stride in values, frames, is float16; the memory must stay.
        with self.decoding_lock():
            return self.decode_now(utterances, columns, checks)

    cdef tuple decode_now(self, const int64_t[:, ::1] utterances, uint32_t columns, InputChecks checks):
        """As `decode`, by the thread that holds the lock."""
        self.ready()
        self.start(batch_of(utterances, columns))
        if checks is not None:
            checks.at(utterances)
        self.finish()
        bad = self.bad()
        return self.answers(), self.work(), bad

    cdef int start(self, vector[LogProbs] batch) except -1:
        raise NotImplementedError

    cdef list bad(self):
        """Where values are no log-probs; an error is raised for an utterance that ran out of room."""
        raise NotImplementedError

    cdef object answers(self):
        raise NotImplementedError

    cdef dict work(self):
        """Nothing is counted, unless a subclass does."""
        return {}
