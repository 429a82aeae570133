"""The words of paths, and paths to which arcs are added."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.string cimport string
from libcpp.vector cimport vector

from arcbeam.graph._graph_view cimport OpenGraph


cdef extern from "graph/label_reader.hpp" namespace "arcbeam" nogil:
    cdef cppclass PathLabels:
        vector[size_t] path_ends
        vector[uint32_t] labels
        vector[int64_t] starts
        vector[int64_t] ends

    cdef cppclass LabelReader:
        pass


cdef extern from "arcbeam/graph/_words/text.hpp" namespace "arcbeam::words" nogil:
    cdef struct Symbols:
        const int64_t* ids
        const int64_t* offsets
        const char* text
        int64_t size
        cbool is_dense

    cdef struct Spellings:
        const uint32_t* words
        const int64_t* rows
        const uint32_t* offsets
        const uint16_t* columns
        size_t size

    cdef struct PathView:
        const uint32_t* arcs
        size_t size

    cdef cppclass WordSource:
        OpenGraph graph
        const uint8_t* word_marks
        uint32_t marked_arcs
        Symbols symbols
        Spellings spellings
        Symbols new_symbols
        Spellings new_spellings
        int32_t blank
        int32_t separator_column
        cbool pieces
        cbool has_separator
        string separator

    cdef struct Span:
        int64_t start
        int64_t end

    cdef cppclass PathTokens:
        vector[uint16_t] columns
        vector[Span] frames
        vector[uint32_t] labels

    cdef struct TextRange:
        size_t begin
        size_t end
        size_t first
        size_t last

    PathTokens path_tokens(const WordSource& source, const PathView& path) except +
    vector[Span] label_spans(const WordSource& source, const PathTokens& tokens) except +

    cdef cppclass SpanReader(LabelReader):
        SpanReader()
        SpanReader(const WordSource& source)

    vector[TextRange] write_words(const WordSource& source, const uint32_t* labels, size_t count, string& text) except +

    cdef cppclass TextEnd:
        pass

    cdef cppclass StableWords:
        size_t count
        size_t size
        string text
        size_t arcs
        void read(const WordSource& source, const PathView& path) except +
        size_t begin()

    void write_text(const WordSource& source, const PathView& path, TextEnd& end, string& text) except +

    cdef cppclass KeptText:
        size_t arcs
        size_t size
        cbool is_new
        string text

    cdef struct ReadPath:
        KeptText* to
        const WordSource* source
        PathView settled
        PathView rest

    void read_texts(const vector[ReadPath]& paths) except +


cdef class WordReader:
    cdef WordSource source
    cdef SpanReader spans  # of this source
    cdef list arrays  # keeps the arrays that the addresses point into alive
    cdef Symbols _symbols(self, table)
    cdef Spellings _spellings(self, pronunciations)
    cdef list spoken(self, const uint32_t* labels, size_t count, const Span* spans, frame_shift, word, confidences)
    cdef tuple stable(self, PathView path)
    cdef tuple stable_after(self, StableWords& words, PathView path)
    cdef vector[string] texts(self, const vector[uint32_t]& labels) except *
    cdef size_t labels_of(self, const vector[uint32_t]& labels, size_t words) except? 0


cdef class GrowingPath:
    # First what every text needs, side by side.
    cdef uint64_t text_at  # the place of a chunk after which it is the text, as its owner numbers places; 0: unknown
    cdef str text_before  # the last one; None before the first
    cdef WordReader reader
    cdef vector[uint32_t] settled
    cdef KeptText kept
    cdef object open_reader  # returns the reader
    cdef StableWords stable_words
    cdef int add(self, const uint32_t* arcs, size_t count) except -1
    cdef int prepare(self) except -1
    cdef str written(self, size_t count, const uint32_t* arcs, size_t size)


cdef struct PathPlace:
    void* path  # a GrowingPath, to which its owner refers
    size_t settled  # arcs of it
    const uint32_t* arcs  # and those after them
    size_t size
    uint64_t at  # the place, as of `text_at`
    size_t index  # of its text

cdef int read_paths(const vector[PathPlace]& places, list texts) except -1
