"""The border to the words of a path: arc ids in, text and times out."""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uintptr_t
from libc.string cimport memcpy
from libcpp cimport bool as cbool
from libcpp.string cimport string
from libcpp.vector cimport vector

from arcbeam.graph._graph_view cimport OpenGraph, new_words_view_of, open_view_of


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
        OpenGraph graph
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
    size_t settled_labels(const WordSource& source, const PathTokens& tokens) except +
    vector[Span] label_spans(const WordSource& source, const PathTokens& tokens) except +
    vector[TextRange] write_words(const WordSource& source, const uint32_t* labels, size_t count, string& text) except +
    void write_text(const WordSource& source, const PathView& path, string& text) except +


cdef class WordReader:
    """Reads the words of paths of one graph.

    Parameters
    ----------
    graph : arcbeam.Graph, or arcbeam.graph.new_words.OpenGraph
    """

    cdef WordSource source
    cdef list arrays  # keeps the arrays that the addresses point into alive

    def __init__(self, graph):
        new_words = getattr(graph, "new_words", None)
        self.source.graph = open_view_of(graph)
        self.arrays = [new_words]
        if new_words is not None:
            self.source.new_symbols = self._symbols(new_words.symbols)
            self.source.new_spellings = self._spellings(new_words.pronunciations)
            graph = graph.graph
        self.arrays += [graph.columns, graph.words, graph.targets]
        if graph.word_symbols is not None:
            self.source.symbols = self._symbols(graph.word_symbols)
        if graph.pronunciations is not None:
            self.source.spellings = self._spellings(graph.pronunciations)
        self.source.blank = -1 if graph.blank is None else graph.blank
        self.source.separator_column = -1 if graph.separator_column is None else graph.separator_column
        self.source.pieces = graph.join == "pieces"
        self.source.has_separator = graph.separator is not None
        self.source.separator = (graph.separator or "").encode()

    cdef Symbols _symbols(self, table):
        cdef Symbols symbols
        ids, offsets, text = self._keep(table.arrays())
        symbols.ids = <const int64_t*> <uintptr_t> ids.ctypes.data
        symbols.offsets = <const int64_t*> <uintptr_t> offsets.ctypes.data
        symbols.text = <const char*> <uintptr_t> text.ctypes.data
        symbols.size = len(ids)
        return symbols

    cdef Spellings _spellings(self, pronunciations):
        cdef Spellings spellings
        rows, words = pronunciations.by_word
        words, rows, offsets, columns = self._keep((words, rows, pronunciations.offsets, pronunciations.columns))
        spellings.words = <const uint32_t*> <uintptr_t> words.ctypes.data
        spellings.rows = <const int64_t*> <uintptr_t> rows.ctypes.data
        spellings.offsets = <const uint32_t*> <uintptr_t> offsets.ctypes.data
        spellings.columns = <const uint16_t*> <uintptr_t> columns.ctypes.data
        spellings.size = len(words)
        return spellings

    def _keep(self, arrays):
        self.arrays.extend(arrays)
        return arrays

    def text(self, const uint32_t[::1] arcs):
        """The words of a path, with a space between them."""
        cdef string text
        write_text(self.source, path_of(arcs), text)
        return text.data()[:text.size()].decode("utf-8")

    def texts(self, list settled, const uint32_t[::1] arcs, const int64_t[::1] begins, const int64_t[::1] lengths):
        """The texts of many paths, each of which is settled[i] followed by `lengths[i]` of the `arcs`."""
        cdef const uint32_t[::1] first
        cdef vector[uint32_t] path
        cdef PathView view
        cdef string text
        cdef size_t i, n, length
        texts = []
        for i in range(<size_t> len(settled)):
            first, length = settled[i], <size_t> lengths[i]
            n = <size_t> first.shape[0]
            path.resize(n + length)
            if n != 0:
                memcpy(path.data(), &first[0], n * sizeof(uint32_t))
            if length != 0:
                memcpy(path.data() + n, &arcs[begins[i]], length * sizeof(uint32_t))
            view.arcs, view.size = path.data(), path.size()
            text.clear()
            write_text(self.source, view, text)
            texts.append(text.data()[:text.size()].decode("utf-8"))
        return texts

    def words(self, const uint32_t[::1] arcs, frame_shift, word, const double[::1] confidences=None):
        """The words of a path with their frames and, if the frame shift is given, their seconds.

        Parameters
        ----------
        arcs : uint32[n]
        frame_shift : float or None
        word : callable
            Makes the items of the result from text, first frame, end frame, the same two in seconds or None, and the
            confidence or None.
        confidences : float64[output labels of the path], optional
            A word of several labels has the smallest of theirs.
        """
        cdef PathTokens tokens = path_tokens(self.source, path_of(arcs))
        cdef vector[Span] spans = label_spans(self.source, tokens)
        cdef string text
        cdef vector[TextRange] ranges = write_words(self.source, tokens.labels.data(), tokens.labels.size(), text)
        cdef TextRange one
        cdef int64_t start, end
        cdef const char* letters = text.data()
        cdef size_t label
        found = []
        for one in ranges:
            start, end = spans[one.first].start, spans[one.last].end
            spoken = letters[one.begin:one.end].decode("utf-8")
            confidence = None
            if confidences is not None:
                confidence = min([confidences[label] for label in range(one.first, one.last + 1)])
            if frame_shift is None:
                found.append(word(spoken, start, end, None, None, confidence))
            else:
                found.append(word(spoken, start, end, start * frame_shift, end * frame_shift, confidence))
        return found

    def num_stable(self, const uint32_t[::1] arcs):
        """How many words of a path, from the first, keep their text and frames whatever arcs follow it."""
        cdef PathTokens tokens = path_tokens(self.source, path_of(arcs))
        cdef size_t settled = settled_labels(self.source, tokens)
        cdef string text
        cdef vector[TextRange] ranges = write_words(self.source, tokens.labels.data(), tokens.labels.size(), text)
        cdef size_t count = 0
        while count + 1 < ranges.size() and ranges[count].last < settled:
            count += 1
        return count

    def tokens(self, const uint32_t[::1] arcs):
        """What a path reads, repeats and blanks taken out: columns, and the first frame and the end of each, int64[n].
        """
        cdef PathTokens tokens = path_tokens(self.source, path_of(arcs))
        found = np.empty((3, tokens.columns.size()), np.int64)
        cdef int64_t[:, ::1] into = found
        cdef size_t i
        for i in range(tokens.columns.size()):
            into[0, i], into[1, i], into[2, i] = tokens.columns[i], tokens.frames[i].start, tokens.frames[i].end
        return found[0], found[1], found[2]


cdef PathView path_of(const uint32_t[::1] arcs):
    cdef PathView path
    path.size = arcs.shape[0]
    path.arcs = &arcs[0] if path.size else NULL
    return path
