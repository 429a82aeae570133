"""Passes a LanguageModel's columns to C++: addresses of arrays that the holder keeps alive."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memset


cdef extern from "shared/lm_view.hpp" namespace "arcbeam" nogil:
    cdef struct LmArc:
        uint32_t next_state
        float weight

    cdef struct LmView:
        const uint16_t* labels_low
        const uint32_t* labels_high
        const uint8_t* first_offsets
        const uint32_t* first_bases
        const uint32_t* wide_firsts
        const uint64_t* backoff_steps
        const uint32_t* backoff_bases
        const uint32_t* wide_backoffs
        const LmArc* arcs
        const float* backoff_weights
        uint32_t num_states
        uint32_t num_arcs
        uint32_t num_wide_firsts
        uint32_t num_wide_backoffs
        uint32_t high_bits
        uint32_t start
        uint32_t num_labels

    cdef struct LmStep:
        float cost
        uint32_t next_state
        uint32_t source "from"

    LmStep lm_step(const LmView&, uint32_t, uint32_t)


cdef extern from "shared/rescoring.hpp" namespace "arcbeam" nogil:
    cdef struct History:
        uint32_t large
        uint32_t small

    cdef struct RescoringView:
        LmView large
        LmView small
        const uint32_t* large_labels
        const uint32_t* small_labels
        float large_scale
        float small_scale

    cdef struct Deviation:
        float cost
        History next


cdef inline LmView lm_view_of(columns, about):
    """The view of the columns (arrays by name) of a language model, valid as long as the arrays exist."""
    cdef LmView view
    view.labels_low = <const uint16_t*> <uintptr_t> columns["labels.low"].ctypes.data
    view.labels_high = <const uint32_t*> <uintptr_t> columns["labels.high"].ctypes.data
    view.first_offsets = <const uint8_t*> <uintptr_t> columns["first.offsets"].ctypes.data
    view.first_bases = <const uint32_t*> <uintptr_t> columns["first.bases"].ctypes.data
    view.wide_firsts = <const uint32_t*> <uintptr_t> columns["first.wide"].ctypes.data
    view.backoff_steps = <const uint64_t*> <uintptr_t> columns["backoff.steps"].ctypes.data
    view.backoff_bases = <const uint32_t*> <uintptr_t> columns["backoff.bases"].ctypes.data
    view.wide_backoffs = <const uint32_t*> <uintptr_t> columns["backoff.wide"].ctypes.data
    view.arcs = <const LmArc*> <uintptr_t> columns["arcs"].ctypes.data
    view.backoff_weights = <const float*> <uintptr_t> columns["backoff.weights"].ctypes.data
    view.num_states = <uint32_t> len(columns["backoff.weights"])
    view.num_arcs = <uint32_t> len(columns["arcs"])
    view.num_wide_firsts = <uint32_t> len(columns["first.wide"])
    view.num_wide_backoffs = <uint32_t> len(columns["backoff.wide"])
    view.high_bits = about["high_bits"]
    view.start = about["start"]
    view.num_labels = about["num_labels"]
    return view


cdef inline RescoringView rescoring_view_of(rescoring):
    """The view of an arcbeam.ctc.rescoring.Rescoring, valid while that exists; without `large` for KenLM."""
    cdef RescoringView view
    memset(&view, 0, sizeof(view))
    if rescoring.kenlm is None:
        view.large = lm_view_of(rescoring.large.columns, rescoring.large.about)
    view.small = lm_view_of(rescoring.small.columns, rescoring.small.about)
    view.large_labels = <const uint32_t*> <uintptr_t> rescoring.large_labels.ctypes.data
    view.small_labels = <const uint32_t*> <uintptr_t> rescoring.small_labels.ctypes.data
    view.large_scale = rescoring.large_scale
    view.small_scale = rescoring.small_scale
    return view
