"""What streams of all decoders are to the code that takes their chunks: one loop without Python, for there may be
thousands."""

from libc.stdint cimport uint64_t

cdef uint64_t calls = 0


cdef class AnyStream:
    """A stream of some decoder, which is its `_decoder`."""


def checked_streams(streams, kind, decoder):
    """A list of them; None if something is no stream of this class, of this decoder, or is there twice."""
    global calls
    cdef list found = list(streams)
    cdef AnyStream stream
    cdef uint64_t call
    cdef size_t i
    calls += 1
    call = calls
    for i in range(<size_t> len(found)):
        if not isinstance(found[i], kind):
            return None
        stream = <AnyStream?> found[i]
        if stream._decoder is not decoder or stream.call == call:
            return None
        stream.call = call
    return found
