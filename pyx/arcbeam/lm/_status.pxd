"""How the C++ of language models reports a failure."""

from libcpp.string cimport string


cdef extern from "common/status.hpp" namespace "arcbeam" nogil:
    cdef enum class Code(int):
        kOk

    cdef cppclass Status:
        Code code
        string message
