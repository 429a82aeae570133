"""An engine of the CPU: its pool of threads, which lives in one process, and the wait for a batch."""

import threading

from cpython.exc cimport PyErr_CheckSignals
from posix.unistd cimport getpid


cdef class PooledEngine:
    """What a subclass decodes a batch with: `ready` in its `turn`, then a start of its own, then `finish`."""

    def __cinit__(self, *arguments, **options):
        self.lock = threading.Lock()
        self.process_of_lock = getpid()

    cdef object turn(self):
        """The lock to decode under. A forked child has its own: who held its parent's at the fork is not there."""
        if self.process_of_lock != getpid():
            mine = threading.Lock()
            if self.process_of_lock != getpid():  # nor has another thread made one in the meantime
                self.lock, self.process_of_lock = mine, getpid()
        return self.lock

    @property
    def stream(self):
        """None: no stream of a GPU reads what this engine decodes."""
        return None

    def memory(self):
        """dict : bytes by purpose, where a subclass tells them."""
        return {}

    def release(self):
        """Ends the threads and frees what they keep from batch to batch; the next batch makes them anew."""
        with self.turn():
            self.close()

    cdef AnyEngine* new_pool(self) except NULL:
        """The subclass's engine, which is deleted here."""
        raise NotImplementedError

    cdef int ready(self) except -1:
        """Sees to it that there are threads: a forked child has none of its parent's."""
        if self.pool == NULL or self.process != getpid():
            self.pool = NULL
            self.pool = self.new_pool()
            self.process = getpid()
        return 0

    cdef int finish(self) except -1:
        """Waits for the batch. After Ctrl-C its arrays may go once we return, so the threads let go of them first."""
        cdef cbool done = False
        try:
            while not done:
                with nogil:
                    done = self.pool.wait(100)
                if not done:
                    PyErr_CheckSignals()
        finally:
            if not done:
                self.pool.cancel()
                while not done:
                    with nogil:
                        done = self.pool.wait(100)
        return 0

    cdef void close(self):
        """Ends the threads; a subclass calls it before what they read goes."""
        # In a forked child the threads do not exist; joining them would wait for ever.
        if self.pool != NULL and self.process == getpid():
            with nogil:
                del self.pool
        self.pool = NULL
