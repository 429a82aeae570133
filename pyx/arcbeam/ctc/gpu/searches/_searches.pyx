# distutils: extra_compile_args = -O3
"""The kinds of search of an engine: which kernel a batch needs, and the lanes and entries that are kept for it."""

cimport cython
from libc.stddef cimport size_t

from arcbeam.ctc.gpu.searches.kernels import KNOWN, NEW, kernel_for


@cython.final
@cython.no_gc
cdef class Search:
    """One kind: its lanes, and its entries without lattices and with them."""

    def __cinit__(self, SearchKind kind not None, MemoryPool pool not None, Stream stream not None):
        self.kind, self.pool = kind, pool
        self.lanes = Lanes(kind, pool, stream)
        self.loaded = {kind.kernel.name: Launches(pool.context, kind)}

    cdef Launches entries(self, bint lattices, bint streams):
        """They are loaded when they are first used."""
        kernel = self.kind.kernel.with_lattices(streams) if lattices else self.kind.kernel
        if kernel.name not in self.loaded:
            self.loaded[kernel.name] = Launches(self.pool.context, SearchKind(kernel))
        return <Launches> self.loaded[kernel.name]


@cython.final
@cython.no_gc
cdef class Searches:
    """All search kinds of an engine with a `model` of kernels.py: without boosts, with them, with new words."""

    def __cinit__(self, MemoryPool pool not None, Stream stream not None, model):
        self.pool, self.stream, self.model = pool, stream, model
        self.plain = self.search(None)

    cdef Search search(self, boosts):
        return Search(SearchKind(kernel_for(self.model, boosts)), self.pool, self.stream)

    cdef Search of(self, bint boosted, bint opens):
        """That of a batch: whether it has boost lists, and whether the kernel reads new words."""
        if not boosted:
            return self.plain
        if opens:
            self.opened = self.opened or self.search(NEW)
            return self.opened
        self.boosted = self.boosted or self.search(KNOWN)
        return self.boosted

    cdef list all(self):
        """Those that there have been."""
        return [one for one in (self.plain, self.boosted, self.opened) if one is not None]

    cdef int clear(self) except -1:
        """Gives the memory of all lanes back."""
        for one in self.all():
            (<Search> one).lanes.clear()
        return 0

    cdef size_t room_bytes(self):
        return sum([(<Search> one).lanes.room_bytes() for one in self.all()])

    cdef size_t log_bytes(self):
        return sum([(<Search> one).lanes.log_bytes() for one in self.all()])
