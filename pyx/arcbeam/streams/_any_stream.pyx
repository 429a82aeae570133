"""What streams of all decoders are to the code that takes their chunks: one loop without Python, for there may be
thousands."""

from cpython.pythread cimport PyThread_get_thread_ident
from libc.stdint cimport uint64_t
from libcpp.vector cimport vector

from arcbeam.core._fetch cimport addresses_of, fetch_ahead

cdef uint64_t calls = 0
cdef uint64_t num_held = 0  # streams with chunks that wait, of all decoders


cdef class AnyStream:
    """A stream of some decoder, which is its `_decoder`."""

    def __dealloc__(self):
        global num_held
        num_held -= self.worker != 0

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
    if num_held == 0:
        return False
    for stream in streams:
        if is_held(<AnyStream> stream, thread):
            return True
    return False


def hold(AnyStream stream, unsigned long thread):
    """Only this thread, by ``threading.get_ident()``, decodes the stream's chunks from now on; 0: any thread."""
    global num_held
    num_held += (thread != 0) - (stream.worker != 0)
    stream.worker = thread


def all_usable(list streams, kind, decoder):
    """Whether all are streams of this class and decoder, all distinct, and none has chunks in another thread."""
    global calls
    cdef AnyStream stream
    cdef uint64_t call
    cdef unsigned long me = PyThread_get_thread_ident()
    cdef vector[void*] at
    cdef size_t i
    calls += 1
    call = calls
    addresses_of(streams, at)
    for i in range(at.size()):
        fetch_ahead(at, i)
        if not isinstance(<object> at[i], kind):
            return False
        stream = <AnyStream?> <object> at[i]
        if stream._decoder is not decoder or stream.call == call or is_held(stream, me):
            return False
        stream.call = call
    return True


def true_places(list items):
    """The places of True in a list of bools; None if anything else is in it."""
    cdef vector[void*] at
    cdef size_t i
    cdef list found = []
    cdef object yes = True, no = False
    addresses_of(items, at)
    for i in range(at.size()):
        if at[i] == <void*> yes:
            found.append(i)
        elif at[i] != <void*> no:
            return None
    return found
