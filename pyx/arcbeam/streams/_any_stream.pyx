"""What streams of all decoders are to the code that takes their chunks: one loop without Python, for there may be
thousands."""

from cpython.pythread cimport PyThread_get_thread_ident
from libc.stdint cimport uint64_t

from arcbeam.core._fetch cimport AHEAD, fetch_item

cdef uint64_t calls = 0


cdef class AnyStream:
    """A stream of some decoder, which is its `_decoder`."""

    def __reduce__(self):
        raise TypeError(
            f"{type(self).__name__}: expected the bytes of stream.save(), from which decoder.restore(data) makes a stream; "
            f"a stream itself is neither pickled nor copied")


def decoder_of(stream):
    """What decodes the chunks of a stream; None for anything else."""
    return (<AnyStream> stream)._decoder if isinstance(stream, AnyStream) else None


cpdef bint is_held(AnyStream stream, unsigned long thread) noexcept:
    """Whether the stream has chunks that wait for another thread than this."""
    return stream.worker != 0 and stream.worker != thread


def are_held(list streams, unsigned long thread):
    """Whether one of the streams has chunks that wait for another thread than this."""
    cdef size_t i
    for i in range(<size_t> len(streams)):
        fetch_item(streams, i + 2 * AHEAD)
        if is_held(<AnyStream> streams[i], thread):
            return True
    return False


def hold(AnyStream stream, unsigned long thread):
    """Only this thread, by ``threading.get_ident()``, decodes the stream's chunks from now on; 0: any thread."""
    stream.worker = thread


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
        if stream._decoder is not decoder or stream.call == call or is_held(stream, me):
            return False
        stream.call = call
    return True
