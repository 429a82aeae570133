"""The border to the words of a path: arc ids in, text and times out."""

import numpy as np

from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int64_t, uint8_t, uint32_t, uintptr_t
from libc.string cimport memcpy
from libcpp.string cimport string
from libcpp.utility cimport move
from libcpp.vector cimport vector

from arcbeam.core._fetch cimport AHEAD, fetch, put_item
from arcbeam.graph._graph_view cimport open_view_of


cdef enum:
    FEW_ARCS = 256  # of a path that has begun to grow: memory is not moved in each of its first chunks


cdef class WordReader:
    """Reads the words of paths of one Graph or OpenGraph."""

    def __init__(self, graph):
        new_words = getattr(graph, "new_words", None)
        self.source.graph = open_view_of(graph)
        self.arrays = [new_words]
        if new_words is not None:
            self.source.new_symbols = self._symbols(new_words.symbols)
            self.source.new_spellings = self._spellings(new_words.pronunciations)
            graph = graph.graph
        marks = graph.word_marks
        self.source.word_marks, self.source.marked_arcs = <const uint8_t*> <uintptr_t> marks.ctypes.data, graph.num_arcs
        self.arrays += [graph.columns, graph.words, graph.targets, marks]
        if graph.word_symbols is not None:
            self.source.symbols = self._symbols(graph.word_symbols)
        if graph.pronunciations is not None:
            self.source.spellings = self._spellings(graph.pronunciations)
        self.source.blank = -1 if graph.blank is None else graph.blank
        self.source.separator_column = -1 if graph.separator_column is None else graph.separator_column
        self.source.pieces = graph.join == "pieces"
        self.source.has_separator = graph.separator is not None
        self.source.separator = (graph.separator or "").encode()
        self.spans = SpanReader(self.source)

    cdef Symbols _symbols(self, table):
        cdef Symbols symbols
        ids, offsets, text = self._keep(table.arrays())
        symbols.ids = <const int64_t*> <uintptr_t> ids.ctypes.data
        symbols.offsets = <const int64_t*> <uintptr_t> offsets.ctypes.data
        symbols.text = <const char*> <uintptr_t> text.ctypes.data
        symbols.size = len(ids)
        symbols.is_dense = symbols.size > 0 and ids[0] == 0 and ids[symbols.size - 1] == symbols.size - 1
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
        cdef TextEnd end
        write_text(self.source, path_of(arcs), end, text)
        return text.data()[:text.size()].decode("utf-8")

    def words(self, const uint32_t[::1] arcs, frame_shift, word, const double[::1] confidences=None):
        """The words of a path, made by `word(text, first frame, end, start_s, end_s, confidence)`."""
        # confidences: float64[output labels of the path]; a word of several labels has the smallest of theirs.
        cdef PathTokens tokens = path_tokens(self.source, path_of(arcs))
        cdef vector[Span] spans = label_spans(self.source, tokens)
        return self.spoken(tokens.labels.data(), tokens.labels.size(), spans.data(), frame_shift, word, confidences)

    def text_of_labels(self, const uint32_t[::1] labels):
        """The words of a path that writes these labels, with a space between them."""
        cdef string text
        cdef size_t count = labels.shape[0]
        write_words(self.source, &labels[0] if count else NULL, count, text)
        return PyUnicode_DecodeUTF8(text.data(), text.size(), NULL)

    def words_of_labels(self, const uint32_t[::1] labels, const int64_t[::1] starts, const int64_t[::1] ends,
                        frame_shift, word):
        """As `words`, of the labels of a path and the frames of each."""
        cdef vector[Span] spans
        cdef size_t i, count = labels.shape[0]
        spans.resize(count)
        for i in range(count):
            spans[i].start, spans[i].end = starts[i], ends[i]
        return self.spoken(&labels[0] if count else NULL, count, spans.data(), frame_shift, word, None)

    cdef list spoken(self, const uint32_t* labels, size_t count, const Span* spans, frame_shift, word, confidences):
        """The words of labels with their frames."""
        cdef string text
        cdef vector[TextRange] ranges = write_words(self.source, labels, count, text)
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

    def label_frames(self, const uint32_t[::1] arcs):
        """The frames ``[start, end)`` of each output label of a path: int64[labels], twice."""
        cdef PathTokens tokens = path_tokens(self.source, path_of(arcs))
        cdef vector[Span] spans = label_spans(self.source, tokens)
        found = np.empty((2, spans.size()), np.int64)
        cdef int64_t[:, ::1] into = found
        cdef size_t i
        for i in range(spans.size()):
            into[0, i], into[1, i] = spans[i].start, spans[i].end
        return found[0], found[1]

    def num_stable(self, const uint32_t[::1] arcs):
        """How many words of a path, from the first, keep their text and frames whatever arcs follow it."""
        return self.stable(path_of(arcs))[0]

    cdef tuple stable(self, PathView path):
        """That number, and the text of these words."""
        cdef StableWords words
        return self.stable_after(words, path)

    cdef tuple stable_after(self, StableWords& words, PathView path):
        """The same, where the words of the first arcs have been read before."""
        words.read(self.source, path)
        return words.count, PyUnicode_DecodeUTF8(words.text.data(), words.size, NULL)

    cdef vector[string] texts(self, const vector[uint32_t]& labels) except *:
        """The words of labels, one by one."""
        cdef string text
        cdef vector[string] found
        cdef TextRange one
        for one in write_words(self.source, labels.data(), labels.size(), text):
            found.push_back(text.substr(one.begin, one.end - one.begin))
        return move(found)

    cdef size_t labels_of(self, const vector[uint32_t]& labels, size_t words) except? 0:
        """How many labels, from the first, make the first words."""
        cdef string text
        if words == 0:
            return 0
        return write_words(self.source, labels.data(), labels.size(), text)[words - 1].last + 1

    def tokens(self, const uint32_t[::1] arcs):
        """What a path reads, repeats and blanks taken out: columns, first frames and ends, int64[n]."""
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


cdef class GrowingPath:
    """The settled part of a sentence: a path to which arcs are added, with its text."""
    # Each arc and stable word is read once. The arcs that follow the path change, so each call has them; `count` may be
    # that of an earlier state of the path.

    def __init__(self, open_reader, const uint32_t[::1] arcs=None):
        self.open_reader = open_reader
        if arcs is not None and arcs.shape[0] > 0:
            self.add(&arcs[0], arcs.shape[0])

    def __len__(self):
        return self.settled.size()

    def arcs(self, size_t count, const uint32_t[::1] rest=None):
        """uint32[count + rest]: the first arcs, and the rest after them."""
        cdef size_t size = 0 if rest is None else rest.shape[0]
        found = np.empty(count + size, np.uint32)
        cdef uint32_t[::1] into = found
        if count > 0:
            memcpy(&into[0], self.settled.data(), count * sizeof(uint32_t))
        if size > 0:
            memcpy(&into[count], &rest[0], size * sizeof(uint32_t))
        return found

    def text(self, size_t count, const uint32_t[::1] rest):
        """The words of the first arcs, and of the rest after them, with a space between them."""
        cdef vector[PathPlace] places
        cdef PathView view = path_of(rest)
        cdef list found = [None]
        places.push_back(PathPlace(<void*> self, count, view.arcs, view.size, 0, 0))
        read_paths(places, found)
        return found[0]

    def stable(self, size_t count):
        """WordReader.num_stable of the first arcs, and the text of these words."""
        cdef PathView path
        self.prepare()
        path.arcs, path.size = self.settled.data(), count
        if count < self.stable_words.arcs:
            return self.reader.stable(path)
        return self.reader.stable_after(self.stable_words, path)

    @property
    def stable_from(self):
        """The arc from which stable words are read next: what lies before is known."""
        return self.stable_words.begin()

    cdef int add(self, const uint32_t* arcs, size_t count) except -1:
        cdef size_t size = self.settled.size() + count
        if size > self.settled.capacity():
            self.settled.reserve(2 * size if size > FEW_ARCS else FEW_ARCS)
        self.settled.insert(self.settled.end(), arcs, arcs + count)
        return 0

    cdef int prepare(self) except -1:
        if self.reader is None:
            self.reader = self.open_reader()
        return 0

    cdef str written(self, size_t count, const uint32_t* arcs, size_t size):
        """The text of fewer arcs than are read."""
        cdef string text
        cdef TextEnd end
        cdef PathView path
        path.arcs, path.size = self.settled.data(), count
        write_text(self.reader.source, path, end, text)
        path.arcs, path.size = arcs, size
        write_text(self.reader.source, path, end, text)
        return PyUnicode_DecodeUTF8(text.data(), text.size(), NULL)


cdef int read_paths(const vector[PathPlace]& places, list texts) except -1:
    """Puts the texts of different growing paths, each up to some place with the arcs after it, into a list."""
    cdef GrowingPath path
    cdef const PathPlace* place
    cdef vector[ReadPath] later
    cdef ReadPath one
    cdef size_t i, n = places.size()
    for i in range(n):
        path = <GrowingPath> places[i].path
        path.prepare()  # which other threads may use: no address is kept yet
    later.reserve(n)
    for i in range(n):
        place = &places[i]
        if i + AHEAD < n:
            fetch(places[i + AHEAD].path)
        path = <GrowingPath> place.path
        if path.kept.arcs > place.settled:  # another thread has read more of the path meanwhile
            put_item(texts, place.index, path.written(place.settled, place.arcs, place.size))
            continue
        one.to, one.source = &path.kept, &path.reader.source
        one.settled.arcs, one.settled.size = path.settled.data() + path.kept.arcs, place.settled - path.kept.arcs
        one.rest.arcs, one.rest.size = place.arcs, place.size
        later.push_back(one)
    read_texts(later)
    for i in range(n):
        place = &places[i]
        if i + 2 * AHEAD < n:
            fetch(places[i + 2 * AHEAD].path)
        if i + AHEAD < n:
            path = <GrowingPath> places[i + AHEAD].path
            fetch(<void*> path.text_before)
            fetch(path.kept.text.data())
        path = <GrowingPath> place.path
        if path.kept.arcs != place.settled:
            continue
        if path.kept.is_new:
            path.text_before = PyUnicode_DecodeUTF8(path.kept.text.data(), path.kept.text.size(), NULL)
            path.kept.is_new, path.text_at = False, place.at
        elif place.at != 0:
            path.text_at = place.at
        put_item(texts, place.index, path.text_before)
    return 0
