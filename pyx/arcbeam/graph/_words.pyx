"""The border to the words of a path: arc ids in, text and times out."""

from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uintptr_t
from libcpp cimport bool as cbool
from libcpp.string cimport string
from libcpp.vector cimport vector

from arcbeam.graph._graph_view cimport GraphView, view_of


cdef extern from "arcbeam/graph/_words/text.hpp" namespace "arcbeam::words" nogil:
    cdef struct Symbols:
        const int64_t* ids
        const int64_t* offsets
        const char* text
        int64_t size

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
        GraphView graph
        Symbols symbols
        Spellings spellings
        int32_t blank
        int32_t separator_column
        cbool pieces
        cbool has_separator
        string separator

    cdef struct Span:
        int64_t start
        int64_t end

    cdef cppclass PathTokens:
        vector[uint32_t] labels

    cdef struct TextRange:
        size_t begin
        size_t end
        size_t first
        size_t last

    PathTokens path_tokens(const WordSource& source, const PathView& path) except +
    vector[Span] label_spans(const WordSource& source, const PathTokens& tokens) except +
    vector[TextRange] write_words(const WordSource& source, const uint32_t* labels, size_t count, string& text) except +
    void write_text(const WordSource& source, const PathView& path, string& text) except +


cdef class WordReader:
    """Reads the words of paths of one graph.

    Parameters
    ----------
    graph : arcbeam.Graph
    """

    cdef WordSource source
    cdef list arrays  # keeps the arrays that the addresses point into alive

    def __init__(self, graph):
        self.arrays = [graph.columns, graph.words, graph.targets]
        self.source.graph = view_of(graph)
        if graph.word_symbols is not None:
            ids, offsets, text = self._keep(graph.word_symbols.arrays())
            self.source.symbols.ids = <const int64_t*> <uintptr_t> ids.ctypes.data
            self.source.symbols.offsets = <const int64_t*> <uintptr_t> offsets.ctypes.data
            self.source.symbols.text = <const char*> <uintptr_t> text.ctypes.data
            self.source.symbols.size = len(ids)
        if graph.pronunciations is not None:
            rows, words = graph.pronunciations.by_word
            words, rows, offsets, columns = self._keep(
                (words, rows, graph.pronunciations.offsets, graph.pronunciations.columns))
            self.source.spellings.words = <const uint32_t*> <uintptr_t> words.ctypes.data
            self.source.spellings.rows = <const int64_t*> <uintptr_t> rows.ctypes.data
            self.source.spellings.offsets = <const uint32_t*> <uintptr_t> offsets.ctypes.data
            self.source.spellings.columns = <const uint16_t*> <uintptr_t> columns.ctypes.data
            self.source.spellings.size = len(words)
        self.source.blank = -1 if graph.blank is None else graph.blank
        self.source.separator_column = -1 if graph.separator_column is None else graph.separator_column
        self.source.pieces = graph.join == "pieces"
        self.source.has_separator = graph.separator is not None
        self.source.separator = (graph.separator or "").encode()

    def _keep(self, arrays):
        self.arrays.extend(arrays)
        return arrays

    def text(self, const uint32_t[::1] arcs):
        """The words of a path, with a space between them."""
        cdef string text
        write_text(self.source, path_of(arcs), text)
        return text.data()[:text.size()].decode("utf-8")

    def words(self, const uint32_t[::1] arcs, frame_shift, word):
        """The words of a path with their frames and, if the frame shift is given, their seconds.

        Parameters
        ----------
        arcs : uint32[n]
        frame_shift : float or None
        word : callable
            Makes the items of the result from text, first frame, end frame, and the same two in seconds or None.
        """
        cdef PathTokens tokens = path_tokens(self.source, path_of(arcs))
        cdef vector[Span] spans = label_spans(self.source, tokens)
        cdef string text
        cdef vector[TextRange] ranges = write_words(self.source, tokens.labels.data(), tokens.labels.size(), text)
        cdef TextRange one
        cdef int64_t start, end
        cdef const char* letters = text.data()
        found = []
        for one in ranges:
            start, end = spans[one.first].start, spans[one.last].end
            spoken = letters[one.begin:one.end].decode("utf-8")
            if frame_shift is None:
                found.append(word(spoken, start, end, None, None))
            else:
                found.append(word(spoken, start, end, start * frame_shift, end * frame_shift))
        return found


cdef PathView path_of(const uint32_t[::1] arcs):
    cdef PathView path
    path.size = arcs.shape[0]
    path.arcs = &arcs[0] if path.size else NULL
    return path
