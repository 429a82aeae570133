"""What streams of all decoders are to the code that takes their chunks: one loop without Python, for there may be
thousands."""

from cpython.pythread cimport PyThread_get_thread_ident
from libc.stdint cimport uint64_t

cdef uint64_t calls = 0


cdef class AnyStream:
    """A stream of some decoder, which is its `_decoder`."""

    def __reduce__(self):
        raise TypeError(
            f"{type(self).__name__}: expected the bytes of stream.save(), from which decoder.restore(data) makes a stream; "
            f"a stream itself is neither pickled nor copied")


def all_usable(list streams, kind, decoder):
    """Whether all are streams of this class and decoder, all distinct, and none has chunks in another thread."""
    global calls
    cdef AnyStream stream
    cdef uint64_t call
    cdef unsigned long me = PyThread_get_thread_ident()
    calls += 1
    call = calls
    for item in streams:
        if not isinstance(item, kind):
            return False
        stream = <AnyStream?> item
        if stream._decoder is not decoder or stream.call == call or (stream._worker != 0 and stream._worker != me):
            return False
        stream.call = call
    return True
