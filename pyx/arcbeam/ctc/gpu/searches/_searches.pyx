# distutils: extra_compile_args = -O3
"""The kinds of search of an engine: which kernel a batch needs, and the lanes and entries that are kept for it."""

cimport cython
from libc.stddef cimport size_t

from arcbeam.ctc.gpu.searches._search cimport (
    REQUESTING, REQUESTING_ARCS, BOOSTED, BOOSTED_REQUESTING, BOOSTED_RESCORING, BUCKETED, NEW_WORDS, NEW_WORDS_RESCORING, PLAIN,
    RESCORING, with_lattices,
)


@cython.final
@cython.no_gc
cdef class Search:
    """One kind: its lanes, and its entries without lattices and with them."""

    def __cinit__(self, SearchKind kind not None, MemoryPool pool not None, Stream stream not None):
        self.kind, self.pool = kind, pool
        self.lanes = Lanes(kind, pool, stream)
        self.loaded = {kind.name: Launches(pool.context, kind)}

    cdef Launches entries(self, bint lattices, bint streams):
        """They are loaded when they are first used."""
        cdef SearchKind kind = with_lattices(self.kind, streams) if lattices else self.kind
        if kind.name not in self.loaded:
            self.loaded[kind.name] = Launches(self.pool.context, kind)
        return <Launches> self.loaded[kind.name]


@cython.final
@cython.no_gc
cdef class Searches:
    """All search kinds of an engine: without boost lists, with them, with new words. `bucketed`: arcs in buckets."""

    def __cinit__(self, MemoryPool pool not None, Stream stream not None, bint rescores, bint requests, bint requests_arcs,
                  bint bucketed):
        cdef SearchKind kind = PLAIN
        self.pool, self.stream = pool, stream
        self.boosted_kind, self.opened_kind = BOOSTED, NEW_WORDS
        if rescores:
            kind = BUCKETED if bucketed else RESCORING
            self.boosted_kind, self.opened_kind = BOOSTED_RESCORING, NEW_WORDS_RESCORING
        if requests:
            kind = REQUESTING_ARCS if requests_arcs else REQUESTING
            self.opened_kind = BOOSTED_REQUESTING
        self.plain = Search(kind, pool, stream)

    cdef Search of(self, bint boosted, bint opens):
        """That of a batch: whether it has boost lists, and whether the kernel reads new words."""
        if not boosted:
            return self.plain
        if opens:
            if self.opened is None:
                self.opened = Search(self.opened_kind, self.pool, self.stream)
            return self.opened
        if self.boosted is None:
            self.boosted = Search(self.boosted_kind, self.pool, self.stream)
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
