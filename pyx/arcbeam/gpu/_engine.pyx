"""What the engines of both decoders share on a device: the lock, retries with less memory, and the return of memory."""

import threading

from arcbeam.gpu._cuda cimport driver, ignore

from arcbeam.gpu import _cuda


cdef class BatchEngine:
    """Decodes one batch at a time on one device; Python threads take turns."""

    cdef int open(self, int ordinal) except -1:
        """Opens the device; the engine's own constructor makes the pool."""
        self.lock = threading.RLock()
        self.context = _cuda.context_of(ordinal)
        self.stream, self.copies = Stream(self.context), Stream(self.context)
        return 0

    def decoding_lock(self):
        """The lock to decode under; a thread that holds it may take it again.

        In a forked child this raises an error: the thread that held the lock at the fork does not exist there.
        """
        with self.context:
            pass
        return self.lock

    def finished(self):
        """0: the utterances of a batch finish together."""
        return 0

    def release(self):
        """Gives back the memory that grows with batches, on device and host; the next batch grows it again."""
        with self.decoding_lock():
            self.give_back()
            self.halvings = 0
            self.free_pinned()

    cdef object decode_with_retry(self, tuple batch):
        """The result of `attempt`, which is repeated with less memory while memory is short and `shrink` allows it."""
        while True:
            try:
                with self.context:
                    found = self.attempt(batch)
                self.halvings = max(0, self.halvings - 1)
                return found
            except BaseException as error:
                self.give_back()
                if not self.shrink(error):
                    raise

    cdef int give_back(self) except -1:
        """Frees the memory that grows, after a failure; result codes are ignored."""
        if self.context.enter_to_free():
            self.free()
            # Freed memory returns to the pool when the streams reach this point, and trimming returns it to the device.
            ignore(self.context.state, driver().stream_synchronize(self.stream.handle))
            ignore(self.context.state, driver().stream_synchronize(self.copies.handle))
            ignore(self.context.state, driver().pool_trim(self.pool.handle, 0))
            self.context.leave()
        return 0

    # What an engine defines

    cdef object attempt(self, tuple batch):
        """Decodes a batch once, in the context."""
        raise NotImplementedError

    cdef bint shrink(self, error) except -1:
        """Whether the next attempt takes less memory: otherwise the error is raised."""
        raise NotImplementedError

    cdef int free(self) except -1:
        """Frees the device memory that grows, in the context."""
        raise NotImplementedError

    cdef int free_pinned(self) except -1:
        """Frees the pinned memory that grows."""
        raise NotImplementedError
