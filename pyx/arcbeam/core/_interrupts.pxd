"""The check for signals, and for an interrupt by another thread."""

cdef int check_interrupts() except -1
