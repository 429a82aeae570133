"""The check that every wait for an engine makes: for signals, such as Ctrl-C, and for an interrupt by another thread."""

from cpython.exc cimport PyErr_CheckSignals
from cpython.pythread cimport PyThread_get_thread_ident

cdef dict reasons = {}  # functions that return an error, by the thread in which it is raised


def interrupt(unsigned long thread, reason):
    """Ends a thread's (`get_ident()`) present and later calls of engines with the error `reason()`; None resumes."""
    if reason is None:
        reasons.pop(thread, None)
    else:
        reasons[thread] = reason


cdef int check_interrupts() except -1:
    """Raises what a signal's handler raises, as after Ctrl-C, or what this thread is interrupted with."""
    PyErr_CheckSignals()
    if reasons:
        reason = reasons.get(PyThread_get_thread_ident())
        if reason is not None:
            raise reason()
    return 0
