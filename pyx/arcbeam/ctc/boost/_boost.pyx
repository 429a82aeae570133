"""The border to the boost lists: phrases in, automata over the words of a graph out."""

import numpy as np

from cpython.buffer cimport PyBuffer_FillInfo
from libc.math cimport llrint
from libc.stdint cimport int64_t, uint8_t, uint32_t, uintptr_t
from libcpp cimport bool as cbool
from libcpp.memory cimport make_shared, shared_ptr, unique_ptr
from libcpp.utility cimport move
from libcpp.vector cimport vector

from arcbeam.graph._graph_view cimport OpenGraph, new_words_view_of, open_view_of


cdef extern from *:
    const char* PyUnicode_AsUTF8AndSize(object, Py_ssize_t*) except NULL


cdef extern from "boost/compile.hpp" namespace "arcbeam::boost" nogil:
    const double kUnit

    cdef cppclass Phrases:
        size_t size()

    cdef cppclass Automaton:
        vector[BoostState] states
        vector[BoostArc] arcs
        double largest
        BoostView view()

    Automaton compile_phrases "arcbeam::boost::compile"(const Phrases&, double) except +


cdef extern from "arcbeam/ctc/boost/_boost/words.hpp" namespace "arcbeam::boost" nogil:
    cdef cppclass string_view "std::string_view":
        string_view()
        string_view(const char*, size_t)

    cdef cppclass CppWordIndex "arcbeam::boost::WordIndex":
        CppWordIndex(const int64_t*, const int64_t*, const char*, size_t, const uint8_t*, size_t) except +
        uint32_t find(string_view)


cdef extern from "arcbeam/ctc/boost/_boost/lines.hpp" namespace "arcbeam::boost" nogil:
    cbool cpp_are_plain "arcbeam::boost::are_plain"(string_view, size_t) except +


cdef extern from "arcbeam/ctc/boost/_boost/lists.hpp" namespace "arcbeam::boost" nogil:
    cdef cppclass PhraseList:
        string_view text
        vector[int64_t] scores
        double depth_scaling
        const CppWordIndex* of_request
        vector[uint8_t] is_known
        Automaton made

    cbool compile_all(const CppWordIndex&, vector[PhraseList]&, size_t) except +


cdef extern from "decode/boosted_models.hpp" namespace "arcbeam::twin" nogil:
    double cpp_path_boost "arcbeam::twin::path_boost"(const OpenGraph&, const BoostView&, const uint32_t*, size_t)


STATE = np.dtype([("potential", "<f4"), ("fallback", "<u4")])
ARC = np.dtype([("state", "<u4"), ("word", "<u4"), ("next_state", "<u4"), ("cost", "<f4")])


cdef class WordIndex:
    """The words that some arc writes, by their text. `words`: uint32[arcs], the output label of each arc."""

    cdef unique_ptr[CppWordIndex] index
    cdef list arrays  # that the index points into

    def __init__(self, symbols, words):
        ids, offsets, text = [np.ascontiguousarray(array) for array in symbols.arrays()]
        cdef uint8_t[::1] written = np.zeros(int(words.max(initial=0)) + 1, np.uint8)
        cdef const uint32_t[::1] of_arcs = words
        cdef Py_ssize_t i
        with nogil:
            for i in range(of_arcs.shape[0]):
                written[of_arcs[i]] = 1
        written[0] = 0
        self.arrays = [ids, offsets, text]
        self.index.reset(new CppWordIndex(
            <const int64_t*> <uintptr_t> ids.ctypes.data, <const int64_t*> <uintptr_t> offsets.ctypes.data,
            <const char*> <uintptr_t> text.ctypes.data, len(ids), &written[0], written.shape[0]))

    def __contains__(self, str word):
        cdef bytes text = word.encode()
        return self.index.get().find(string_view(text, len(text))) != 0


cdef class Column:
    """The bytes of a column of an automaton, which live as long as this."""

    cdef shared_ptr[Automaton] automaton
    cdef const void* begin
    cdef Py_ssize_t size

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, <void*> self.begin, self.size, 1, flags)


cdef class BoostList:
    @property
    def states(self):
        """STATE [states]: potential and fallback of each state."""
        return self.state_bytes.view(STATE)

    @property
    def arcs(self):
        """ARC: the hash table of arcs; word 0 where there is none."""
        return self.arc_bytes.view(ARC)


cdef string_view utf8_of(str text) except *:
    """The text as UTF-8, which lives as long as it; UnicodeEncodeError where it has half of a surrogate pair."""
    cdef Py_ssize_t size
    cdef const char* begin = PyUnicode_AsUTF8AndSize(text, &size)
    return string_view(begin, size)


def are_plain(str lines, size_t count):
    """Whether all lines differ, with single spaces; False, too, with control characters or equal hashes of lines."""
    try:
        return cpp_are_plain(utf8_of(lines), count)
    except UnicodeEncodeError:  # half of a surrogate pair
        return False


def rounded(list scores, double largest):
    """Scores rounded to 1/1024; None if one of them is no float, or beyond `largest` in size or NaN."""
    cdef list made = [None] * len(scores)
    cdef double score
    cdef Py_ssize_t i
    for i in range(len(scores)):
        if not isinstance(scores[i], float):
            return None
        score = scores[i]
        if not abs(score) <= largest:  # NaN compares false
            return None
        made[i] = <double> llrint(score * kUnit) / kUnit
    return made


def compiled(WordIndex index, list phrases, list depth_scalings, list new_words, size_t threads):
    """The BoostLists of lists of phrases, without phrases that have words of neither the graph nor the request."""
    cdef size_t n = len(phrases), i
    cdef vector[PhraseList] lists
    cdef PhraseList* one
    cdef WordIndex of_request
    cdef double score
    cdef bint enough
    indices = []  # which the lists point to
    lists.resize(n)
    for i in range(n):
        one = &lists[i]
        one.depth_scaling = depth_scalings[i]
        one.of_request = NULL
        one.text = utf8_of(phrases[i].lines)
        if isinstance(phrases[i].scores, float):
            score = phrases[i].scores
            one.scores.resize(phrases[i].size, <int64_t> llrint(score * kUnit))  # assign() would not say MemoryError
        else:
            one.scores.reserve(phrases[i].size)
            for score in <list?> phrases[i].scores:
                one.scores.push_back(<int64_t> llrint(score * kUnit))
        if new_words[i] is not None:
            of_request = WordIndex(new_words[i].symbols, new_words[i].words)
            one.of_request = of_request.index.get()
            indices.append(of_request)
    with nogil:
        enough = compile_all(index.index.get()[0], lists, threads)
    if not enough:
        raise MemoryError("boost: there is too little memory for the lists")
    return [list_of(&lists[i], new_words[i]) for i in range(n)]


cdef BoostList no_phrases():
    cdef PhraseList one
    cdef Phrases phrases
    one.made = compile_phrases(phrases, 1.0)
    return list_of(&one, None)


cdef BoostList list_of(PhraseList* compiled, new_words):
    """Takes the automaton of a list."""
    cdef BoostList made = BoostList()
    cdef Column states = Column(), arcs = Column()
    states.automaton = arcs.automaton = make_shared[Automaton](move(compiled.made))
    cdef Automaton* automaton = states.automaton.get()
    states.begin, states.size = automaton.states.data(), automaton.states.size() * sizeof(BoostState)
    arcs.begin, arcs.size = automaton.arcs.data(), automaton.arcs.size() * sizeof(BoostArc)
    made.state_bytes, made.arc_bytes = np.frombuffer(states, np.uint8), np.frombuffer(arcs, np.uint8)
    made.view = automaton.view()
    made.largest = automaton.largest
    made.is_known = np.empty(compiled.is_known.size(), np.uint8)
    cdef uint8_t[::1] is_known = made.is_known
    cdef size_t i, known = 0
    for i in range(compiled.is_known.size()):
        is_known[i] = compiled.is_known[i]
        known += compiled.is_known[i]
    made.all_known = known == compiled.is_known.size()
    made.new_words = new_words
    if new_words is not None:
        made.new_words_view = new_words_view_of(new_words)
    return made


def boost_cost(graph, BoostList boost, const uint32_t[::1] arcs):
    """What a boost added to the cost of a path, its refund included."""
    cdef const uint32_t* first = &arcs[0] if arcs.shape[0] else NULL
    return cpp_path_boost(open_view_of(graph), boost.view, first, arcs.shape[0])


cdef list each(boosts, size_t utterances):
    """A BoostList or None for each utterance; ValueError if there are not as many."""
    if boosts is None or isinstance(boosts, BoostList):
        return [boosts] * utterances
    if len(boosts) != utterances:
        raise ValueError(f"boost: expected one for each of {utterances} utterances, got {len(boosts)}")
    return list(boosts)
