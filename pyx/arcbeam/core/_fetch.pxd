"""Fetching what a loop over thousands of objects will read, because no cache holds them all."""

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


cdef inline int fetch_item(list objects, size_t i) except -1:
    """Fetches an object of a list, if it has so many."""
    if i < <size_t> len(objects):
        fetch(<void*> objects[i])
    return 0
