"""Fetching objects into the cache before their turn: a loop over thousands of streams, which lie scattered, waits for
memory and little else."""

cdef extern from *:
    """
    static inline void arcbeam_fetch(const void* at, int lines) {
        for (int i = 0; i < lines; ++i) __builtin_prefetch(static_cast<const char*>(at) + 64 * i);
    }
    """
    void fetch "arcbeam_fetch"(const void* at, int lines) noexcept nogil
    void* PyList_GET_ITEM(object items, Py_ssize_t i) noexcept

cdef enum:
    ITEMS_AHEAD = 8


cdef inline void fetch_ahead(list items, Py_ssize_t i, int lines) noexcept:
    """In a loop that is at item i: fetches the first lines of a later item."""
    if i + ITEMS_AHEAD < len(items):
        fetch(PyList_GET_ITEM(items, i + ITEMS_AHEAD), lines)
