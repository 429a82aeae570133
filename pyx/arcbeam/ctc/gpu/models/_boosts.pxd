"""Boost lists on a device, and what else a search with boosts needs."""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t

from arcbeam.gpu._cuda cimport Context
from arcbeam.gpu._host_buffers cimport HostBuffer
from arcbeam.gpu._launch cimport Stream
from arcbeam.gpu._memory cimport DeviceBuffer, MemoryPool
from arcbeam.ctc.boost._boost cimport BoostList, BoostView
from arcbeam.ctc.gpu.models._models cimport DeviceWords
from arcbeam.ctc.gpu.searches._rescoring_view cimport NewWordsOnDevice, RescoringParams, SlotView
from arcbeam.ctc.gpu.searches._search cimport DeviceGraph


cdef class DeviceBoosts:
    cdef MemoryPool pool
    cdef Stream stream
    cdef DeviceWords words
    cdef DeviceBuffer counters
    cdef HostBuffer staging
    cdef object places  # of the lists on the device
    cdef object nothing  # the list of an utterance that has none
    cdef DeviceGraph graph
    cdef DeviceBuffer entrances  # of the graph's open slot; empty until a list has new words
    cdef uint32_t first_word  # the id of the first of these; larger than all others until then
    cdef int describe(self, RescoringParams* params) except -1
    cdef int have(self, list lists) except -1
    cdef list _pieces(self, BoostList boost)
    cdef BoostView view(self, boost) except *
    cdef NewWordsOnDevice new_words(self, boost) except *
    cdef int describe_slot(self, SlotView* slot) except -1
    cdef size_t device_bytes(self)
    cdef size_t pinned_bytes(self)
