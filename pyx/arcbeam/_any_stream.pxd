"""What streams of all decoders are to the code that takes their chunks."""


cdef class AnyStream:
    cdef public object _decoder
