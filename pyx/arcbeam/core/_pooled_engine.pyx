"""An engine of the CPU: its pool of threads, which belongs to one process, and the wait for a batch."""

import threading

from posix.unistd cimport getpid

from arcbeam.core._interrupts cimport check_interrupts
from arcbeam.core.errors import CapacityError


cdef extern from "common/room_to_throw.hpp" namespace "arcbeam" nogil:
    cbool has_room_to_throw()


cdef class PooledEngine:
    """To decode a batch, a subclass takes its `decoding_lock`, calls `ready`, starts the threads, and calls `finish`."""

    def __cinit__(self, *arguments, **options):
        self.lock = threading.RLock()
        self.process_of_lock = getpid()

    cpdef object decoding_lock(self):
        """The reentrant lock to decode under; a forked child, which lacks the thread that held it, gets its own."""
        if self.process_of_lock != getpid():
            mine = threading.RLock()
            if self.process_of_lock != getpid():  # no other thread has made one in the meantime
                self.lock, self.process_of_lock = mine, getpid()
        return self.lock

    @property
    def stream(self):
        """None: no stream of a GPU reads what this engine decodes."""
        return None

    def finished(self):
        """How many utterances of the batch in progress are finished, for another thread; 0 without a batch."""
        return 0 if self.pool == NULL or self.process != getpid() else self.pool.finished()

    def memory(self):
        """dict : bytes by purpose, if a subclass reports them."""
        return {}

    def release(self):
        """Ends the threads and frees what they keep from batch to batch; the next batch makes them anew."""
        with self.decoding_lock():
            self.close()

    cdef AnyEngine* new_pool(self) except NULL:
        """The subclass's engine, which is deleted here."""
        raise NotImplementedError

    cdef int ready(self) except -1:
        """Makes sure that there are threads: a forked child has none of its parent's."""
        if not has_room_to_throw():
            raise MemoryError("out of memory for the decoder")
        if self.pool == NULL or self.process != getpid():
            self.pool = NULL
            try:
                self.pool = self.new_pool()
            except RuntimeError as error:  # std::system_error: the machine gives no more
                raise CapacityError(f"threads: {self.threads} threads cannot be started ({error}); use fewer") from None
            self.process = getpid()
        return 0

    cdef int finish(self) except -1:
        """Waits for the batch; after Ctrl-C, until no thread reads its arrays any more."""
        cdef cbool done = False
        try:
            while not done:
                with nogil:
                    done = self.pool.wait(100)
                if not done:
                    check_interrupts()
        finally:
            if not done:
                self.pool.cancel()
                while not done:
                    with nogil:
                        done = self.pool.wait(100)
        return 0

    cdef void close(self):
        """Ends the threads; a subclass calls it before it frees what they read."""
        # In a forked child the threads do not exist; joining them would wait for ever.
        cdef AnyEngine* pool = self.pool
        self.pool = NULL  # first, because another thread may read `finished` meanwhile
        if pool != NULL and self.process == getpid():
            with nogil:
                del pool
