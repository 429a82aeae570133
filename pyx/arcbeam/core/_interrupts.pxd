"""The check for signals, and for an interrupt by another thread."""

cdef enum:
    SLICE_MS = 100  # of waiting between checks

cdef int check_interrupts() except -1
