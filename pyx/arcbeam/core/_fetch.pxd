"""Loops over thousands of objects: their addresses, and fetching what will be read, because no cache holds them all."""

from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libcpp.vector cimport vector

cdef extern from *:
    """
    static inline void arcbeam_fetch(const void* object) {
        for (int line = 0; line < 5; ++line) __builtin_prefetch((const char*)object + 64 * line);
    }
    """
    # The first 320 bytes, if they are memory at all.
    void fetch "arcbeam_fetch"(const void* object) noexcept nogil

cdef enum:
    AHEAD = 6  # objects between the one that is fetched and the one that is read


cdef extern from "Python.h":
    void* item_of "PyList_GetItem"(object objects, Py_ssize_t i) except NULL  # to which the list refers
    int give_item "PyList_SetItem"(object objects, Py_ssize_t i, PyObject* item) except -1  # with its reference
    object new_list "PyList_New"(Py_ssize_t count)  # without items: each must be put


cdef inline int put_item(list objects, size_t i, object item) except -1:
    """Puts an object into a list, without a number of Python for its place."""
    Py_INCREF(item)
    return give_item(objects, i, <PyObject*> item)


cdef inline int addresses_of(list objects, vector[void*]& into) except -1:
    """The objects of a list by their addresses, which are valid while the list is as it is."""
    cdef size_t i, n = len(objects)
    into.resize(n)
    for i in range(n):
        into[i] = item_of(objects, i)
    return 0


cdef inline void fetch_ahead(const vector[void*]& objects, size_t i) noexcept nogil:
    """Fetches the object that a loop at object i will read soon."""
    if i + AHEAD < objects.size():
        fetch(objects[i + AHEAD])
