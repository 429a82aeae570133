"""Arrays of NumPy as vectors of C++.

Cython's own conversion does not catch std::bad_alloc of copies. So functions return with ``move``; copy by ``assign``.
"""

from libc.stdint cimport int32_t, uint32_t
from libc.string cimport memcpy
from libcpp.vector cimport vector

ctypedef fused Value:
    int32_t
    uint32_t
    float
    double


cdef inline int into_vector(vector[Value]& into, const Value[::1] values) except -1:
    into.resize(values.shape[0])
    if values.shape[0] > 0:
        memcpy(into.data(), &values[0], values.shape[0] * sizeof(Value))
    return 0
