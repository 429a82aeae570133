"""The border to the compiler of new words: texts in, spellings and then states and arcs out, without the GIL."""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport uint16_t, uint32_t, uintptr_t
from libcpp.vector cimport vector

from arcbeam.core._interrupts cimport check_interrupts
from arcbeam.graph._graph_view cimport ArcTarget, StateRecord

from arcbeam.graph import _graph


cdef extern from *:
    const char* PyUnicode_AsUTF8AndSize(object, Py_ssize_t*) except NULL


cdef extern from "arcbeam/graph/_new_words/spellings.hpp" namespace "arcbeam::new_words" nogil:
    cdef cppclass string_view "std::string_view":
        string_view()
        string_view(const char*, size_t)
        size_t size()

    cdef cppclass CppSpelled "arcbeam::new_words::Spelled":
        vector[size_t] words
        vector[size_t] begins
        vector[uint16_t] columns
        size_t size()
        void end_spelling() except +
        void end_word() except +
        void add(const CppSpelled&, size_t) except +

    cdef cppclass CppPieces "arcbeam::new_words::Pieces":
        void add(string_view, uint16_t) except +
        size_t spell(string_view, size_t, CppSpelled&) except +


cdef extern from "arcbeam/graph/_new_words/tree.hpp" namespace "arcbeam::new_words" nogil:
    cdef struct CppRules "arcbeam::new_words::Rules":
        bint has_blank
        uint16_t blank
        bint loops
        bint repeats_need_blank

    cdef struct Copy:
        uint32_t first_state
        uint32_t first_arc
        uint32_t depth
        uint32_t exit

    cdef struct Columns:
        StateRecord* states
        ArcTarget* targets
        uint16_t* columns
        uint32_t* words

    cdef cppclass CppTree "arcbeam::new_words::Tree":
        CppTree(const CppSpelled&, uint32_t, const CppRules&) except +
        size_t states()
        size_t arcs()
        void write(const Copy&, const Columns&)


cdef enum:
    SLICE = 64  # words that are spelled between two checks for signals


cdef struct Place:
    const CppSpelled* spelled
    size_t word


cdef class SpelledWords:
    """Words with their spellings in columns: those of `from_lists`, of `Pieces.spelled`, or gathered from others."""

    cdef CppSpelled spelled

    @staticmethod
    def from_lists(list words):
        """Words of lists of spellings, which are sequences of columns."""
        cdef SpelledWords made = SpelledWords()
        for spellings in words:
            for columns in spellings:
                for column in columns:
                    made.spelled.columns.push_back(<uint16_t> column)
                made.spelled.end_spelling()
            made.spelled.end_word()
        return made

    @staticmethod
    def gathered(list places):
        """Words of several, as pairs of a SpelledWords and a place in it."""
        cdef SpelledWords made = SpelledWords(), source
        cdef vector[Place] found
        cdef Place place
        cdef size_t i
        for source, at in places:
            place.spelled, place.word = &source.spelled, at
            if place.word >= source.spelled.size():
                raise IndexError(f"expected a place below {source.spelled.size()}, got {at}")
            found.push_back(place)
        with nogil:
            for i in range(found.size()):
                made.spelled.add(found[i].spelled[0], found[i].word)
        return made

    def __len__(self):
        return self.spelled.size()

    @property
    def nbytes(self):
        """The bytes of the spellings."""
        return (2 * self.spelled.columns.size() + 8 * self.spelled.begins.size())

    def of(self, size_t word):
        """The spellings of a word, as tuples of columns."""
        cdef size_t s, i
        if word >= self.spelled.size():
            raise IndexError(f"expected a word below {self.spelled.size()}, got {word}")
        return [
            tuple([self.spelled.columns[i] for i in range(self.spelled.begins[s], self.spelled.begins[s + 1])])
            for s in range(self.spelled.words[word], self.spelled.words[word + 1])
        ]

    def arrays(self, uint32_t first_word):
        """The fields of `Pronunciations`; word i has the id `first_word` + i."""
        cdef size_t spellings = self.spelled.begins.size() - 1, tokens = self.spelled.columns.size(), word, s
        words, offsets = np.empty(spellings, np.uint32), np.empty(spellings + 1, np.uint32)
        columns = np.empty(tokens, np.uint16)
        cdef uint32_t[::1] words_view = words, offsets_view = offsets
        cdef uint16_t[::1] columns_view = columns
        with nogil:
            for word in range(self.spelled.size()):
                for s in range(self.spelled.words[word], self.spelled.words[word + 1]):
                    words_view[s] = first_word + <uint32_t> word
            for s in range(spellings + 1):
                offsets_view[s] = <uint32_t> self.spelled.begins[s]
            for s in range(tokens):
                columns_view[s] = self.spelled.columns[s]
        return words, offsets, columns


cdef class Pieces:
    """The tokens that words can be cut into, with their columns."""

    cdef CppPieces pieces

    def __init__(self, dict columns):
        for text, column in columns.items():
            try:
                self.pieces.add(utf8_of(text), column)
            except UnicodeEncodeError:  # half of a surrogate pair, which no word has
                continue

    def spelled(self, list texts, size_t most, size_t max_bytes):
        """(SpelledWords or None above `max_bytes`, and by the place of a text without a spelling the rest of it)."""
        cdef SpelledWords made = SpelledWords()
        cdef vector[string_view] views
        cdef vector[size_t] reached
        cdef size_t i = 0, end
        for text in texts:
            views.push_back(utf8_of(text))
        reached.resize(views.size())
        while i < views.size():
            end = min(views.size(), i + SLICE)
            with nogil:
                for i in range(i, end):
                    reached[i] = self.pieces.spell(views[i], most, made.spelled)
            i = end
            if made.nbytes > max_bytes:
                return None, {}
            check_interrupts()
        return made, {
            i: texts[i].encode()[reached[i]:].decode() for i in range(views.size()) if reached[i] < views[i].size()
        }


cdef string_view utf8_of(str text) except *:
    """The text as UTF-8, valid as long as the text."""
    cdef Py_ssize_t size
    cdef const char* begin = PyUnicode_AsUTF8AndSize(text, &size)
    return string_view(begin, size)


cdef class Tree:
    """The states and arcs of new words, of which a request has a copy for each exit of its graph's slot."""

    cdef CppTree* tree

    def __cinit__(self, SpelledWords spelled not None, uint32_t first_word, blank, bint loops, bint repeats_need_blank):
        cdef CppRules rules
        if spelled.spelled.columns.size() >= _graph.MOST_STATES // 2:
            raise MemoryError(f"new words: their {spelled.spelled.columns.size():,} tokens are more than a graph may have states")
        rules.has_blank, rules.blank = blank is not None, blank or 0
        rules.loops, rules.repeats_need_blank = loops, repeats_need_blank
        with nogil:
            self.tree = new CppTree(spelled.spelled, first_word, rules)

    def __dealloc__(self):
        del self.tree

    def nbytes(self, size_t copies, size_t entering):
        """The bytes that copies take, and arcs that lead to them."""
        cdef size_t state = sizeof(StateRecord) + sizeof(float), arc = sizeof(ArcTarget) + sizeof(uint32_t) + sizeof(uint16_t)
        return copies * (self.tree.states() * state + self.tree.arcs() * arc) + entering * arc

    def copies(self, size_t first_state, size_t first_arc, const uint32_t[::1] exits, const uint32_t[::1] depths,
               size_t entering):
        """A copy for each exit: first states (uint32 [copies]), states, targets, columns, words, finals."""
        # exits, depths: where each copy leads, and the depth of its root. The caller writes the `entering` first arcs.
        cdef size_t copies = exits.shape[0], size = self.tree.states(), arcs = self.tree.arcs(), i
        cdef Copy copy
        cdef Columns to
        if first_state + copies * size > _graph.MOST_STATES or first_arc + entering + copies * arcs > _graph.MOST_ARCS:
            raise MemoryError(f"new words: {copies * size:,} states with {copies * arcs:,} arcs are more than a graph may have")
        states, targets = np.empty(copies * size + 1, _graph.STATE_DTYPE), np.empty(entering + copies * arcs, _graph.TARGET_DTYPE)
        columns, words = np.empty(len(targets), np.uint16), np.empty(len(targets), np.uint32)
        finals = np.empty(copies * size, np.float32)
        cdef float[::1] costs = finals
        to.states = <StateRecord*> <uintptr_t> states.ctypes.data
        to.targets = <ArcTarget*> <uintptr_t> targets.ctypes.data + entering
        to.columns = <uint16_t*> <uintptr_t> columns.ctypes.data + entering
        to.words = <uint32_t*> <uintptr_t> words.ctypes.data + entering
        copy.first_state, copy.first_arc = <uint32_t> first_state, <uint32_t> (first_arc + entering)
        with nogil:
            for i in range(copies * size):
                costs[i] = INFINITY
            for i in range(copies):
                copy.exit, copy.depth = exits[i], depths[i]
                self.tree.write(copy, to)
                copy.first_state += <uint32_t> size
                copy.first_arc += <uint32_t> arcs
                to.states += size
                to.targets += arcs
                to.columns += arcs
                to.words += arcs
        end = first_arc + len(targets)
        states[copies * size] = (end, end, np.inf, 0)
        firsts = first_state + size * np.arange(copies, dtype=np.uint32)
        return firsts.astype(np.uint32), states, targets, columns, words, finals
