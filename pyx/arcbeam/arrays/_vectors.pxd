"""Arrays of NumPy as vectors of C++.

Cython converts one, too, but copies what it has made where it does not catch std::bad_alloc, which ends the process. For
the same reason a function returns a vector with ``move``, and a vector is copied with ``assign``.
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
