"""What streams of all decoders are to the code that takes their chunks."""

from libc.stdint cimport uint64_t


cdef class AnyStream:
    cdef public object _decoder
    cdef uint64_t call  # the number of the last one that the stream was given to
    cdef unsigned long worker  # threading.get_ident() of the one that decodes its waiting chunks; 0 if none wait
