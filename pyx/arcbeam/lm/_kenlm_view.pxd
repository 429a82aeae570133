"""Passes models that rescore, a KenLM among them, to C++."""

from libc.stdint cimport uint32_t

from arcbeam.lm._kenlm cimport KenLm, KenLmModel
from arcbeam.lm._lm_view cimport RescoringView, rescoring_view_of


cdef extern from "decode/models.hpp" namespace "arcbeam::twin" nogil:
    cdef struct KenLmView:
        const KenLm* lm
        const uint32_t* ranks
        RescoringView rescoring


cdef inline KenLmView kenlm_view_of(rescoring):
    """The view of an arcbeam.ctc.rescoring.Rescoring, valid as long as that exists; NULL and NULL without a KenLM."""
    cdef KenLmModel model = rescoring.kenlm
    cdef const uint32_t[::1] ranks = rescoring.ranks
    if model is None:
        return KenLmView(NULL, NULL, rescoring_view_of(rescoring))
    return KenLmView(model.lm.get(), &ranks[0], rescoring_view_of(rescoring))
