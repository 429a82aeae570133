"""Sends log-probs of the host to a device, while the kernel decodes those that have arrived."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from arcbeam.gpu._launch cimport Event, Stream
from arcbeam.gpu._memory cimport DeviceBuffer
from arcbeam.gpu._host_buffers cimport HostBuffer


cdef extern from "arcbeam/ctc/gpu/_staging/order.hpp" namespace "arcbeam::staging" nogil:
    cdef struct Source:
        const unsigned char* rows
        int64_t row_stride
        uint32_t frames
        uint32_t row_bytes

    cdef struct Piece:
        uint32_t utterance
        uint32_t first_row
        uint32_t rows
        uint64_t line

    cdef struct Part:
        size_t first
        size_t last
        uint64_t line
        uint64_t end

    cdef cppclass Order:
        Order(vector[Source], size_t lanes, uint32_t piece_frames) except +
        const vector[Piece]& pieces()
        const vector[uint32_t]& lines()
        const vector[uint32_t]& first_piece()
        uint64_t end()
        vector[Part] parts(uint64_t first, uint64_t most) except +

cdef extern from "arcbeam/ctc/gpu/_staging/gather.hpp" namespace "arcbeam::staging" nogil:
    void gather(const Order&, const Part&, unsigned char* to)

    cdef cppclass Gatherer:
        Gatherer(size_t threads) except +
        void start(const Order&, const Part&, unsigned char* to) except +
        cbool wait(int milliseconds) except +


cdef class Staging:
    cdef Stream stream, counting
    cdef DeviceBuffer memory, word
    cdef HostBuffer gathered
    cdef Event first_sent, last_sent, even_sent, odd_sent  # events of the parts, by number
    cdef Order* order
    cdef Gatherer* gatherer
    cdef vector[Part] parts
    cdef size_t threads, alone_bytes, slot_bytes, next_part
    cdef readonly uint32_t piece_frames
    cdef int begin(self, const int64_t[:, ::1] utterances, uint32_t columns, size_t lanes) except -1
    cdef int send(self, size_t parts) except -1 nogil
    cdef int finish(self) except -1 nogil
    cdef void cancel(self) noexcept nogil
    cdef void drain(self) noexcept nogil
    cdef void clear(self) noexcept nogil
    cdef int release(self) except -1
    cdef size_t device_bytes(self) noexcept nogil
    cdef size_t pinned_bytes(self) noexcept nogil
    cdef int _send_part(self) except -1 nogil
    cdef int _send_gathered(self, size_t number, const Part* part) except -1 nogil
    cdef int _wait(self, Event event) except -1 nogil
    cdef size_t _slot(self, size_t number) noexcept nogil
