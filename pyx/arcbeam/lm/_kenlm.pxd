"""KenLM's models, for the extensions that use them. They keep the KenLmModel whose KenLm they use."""

from libc.stdint cimport uint8_t, uint32_t
from libcpp.memory cimport unique_ptr
from libcpp.string cimport string


cdef extern from "kenlm/kenlm.hpp" namespace "arcbeam" nogil:
    cdef enum class KenLmError(uint8_t):
        kNone
        kLibrary
        kModel

    cdef cppclass KenLm:
        @staticmethod
        unique_ptr[KenLm] load(const string& library, const string& path, KenLmError& kind, string& reason) except +
        size_t state_size()
        unsigned int order()
        uint32_t word(const string&)
        uint32_t start_word()
        uint32_t end_sentence()
        void begin_sentence(void*)
        void null_context(void*)
        float score(const void*, uint32_t, void*)


cdef class KenLmModel:
    cdef unique_ptr[KenLm] lm
