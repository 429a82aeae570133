# distutils: extra_compile_args = -O3
"""Models, boosts and lattices: their parts of its costs, and a lattice rescored with a large model."""

import numpy as np

from libc.stdint cimport uint64_t
from libcpp cimport bool as cbool
from libcpp.utility cimport move

from arcbeam.ctc.boost._boost cimport BoostList, BoostView
from arcbeam.ctc.lattice._lattices cimport Lattice, Lattices
from arcbeam.ctc.streams._saved_search cimport LmContext, take_lm_context
from arcbeam.graph._graph_view cimport OpenGraph, open_view_of
from arcbeam.lm._kenlm_view cimport KenLmView, kenlm_view_of
from arcbeam.lm._lm_view cimport RescoringView, rescoring_view_of

STEP_LIMIT = 1 << 25  # of rescoring: a step takes up to 50 bytes


cdef extern from "lattice/deviations.hpp" nogil:
    void kenlm_deviations "arcbeam::lattice::deviations<arcbeam::twin::KenLmModels>"(
        const OpenGraph&, const KenLmView&, const LmContext&, const Lattice&, float*, float*) except +
    void automaton_deviations "arcbeam::lattice::deviations<arcbeam::twin::AutomatonModels>"(
        const OpenGraph&, const RescoringView&, const LmContext&, const Lattice&, float*, float*) except +
    void cpp_boosts "arcbeam::lattice::boosts"(
        const OpenGraph&, const BoostView&, const Lattice&, float*, float*) except +


cdef extern from "lattice/rescore.hpp" namespace "arcbeam::lattice" nogil:
    cdef cppclass Rescored:
        Lattice lattice
        cbool truncated

    Rescored kenlm_rescore "arcbeam::lattice::rescore<arcbeam::twin::KenLmModels>"(
        const OpenGraph&, const KenLmView&, const Lattice&, float beam, uint64_t step_limit) except +
    Rescored automaton_rescore "arcbeam::lattice::rescore<arcbeam::twin::AutomatonModels>"(
        const OpenGraph&, const RescoringView&, const Lattice&, float beam, uint64_t step_limit) except +


cdef const Lattice* lattice_of(Lattices lattices, size_t index) except NULL:
    if index >= lattices.found.size():
        raise IndexError(f"expected an index below {lattices.found.size()}, got {index}")
    return &lattices.found[index]


def deviations(graph, rescoring, Lattices lattices, size_t index, lm_context=None):
    """float32[links] and of each token of the last step: the cost that rescoring added. Needs a token."""
    cdef const Lattice* one = lattice_of(lattices, index)
    of_links, of_ends = np.zeros(one.links.size(), np.float32), np.zeros(one.end_extras.size(), np.float32)
    cdef float[::1] links = of_links, ends = of_ends
    cdef float* first_link = &links[0] if links.shape[0] else NULL
    cdef float* first_end = &ends[0] if ends.shape[0] else NULL
    cdef OpenGraph view = open_view_of(graph)
    cdef RescoringView models
    cdef KenLmView kenlm_models
    cdef LmContext before
    take_lm_context(lm_context, before)
    if rescoring.kenlm is None:
        models = rescoring_view_of(rescoring)
        with nogil:
            automaton_deviations(view, models, before, one[0], first_link, first_end)
    else:
        kenlm_models = kenlm_view_of(rescoring)
        with nogil:
            kenlm_deviations(view, kenlm_models, before, one[0], first_link, first_end)
    return of_links, of_ends


def rescore(graph, rescoring, Lattices lattices, size_t index, double beam, *, uint64_t step_limit=STEP_LIMIT):
    """(Lattices of length 1, truncated): rescored as cpu_reference/lattice/rescore.hpp; ValueError without any path."""
    cdef const Lattice* one = lattice_of(lattices, index)
    cdef OpenGraph view = open_view_of(graph)
    cdef RescoringView models
    cdef KenLmView kenlm_models
    cdef Rescored rescored
    cdef Lattices made = Lattices()
    if rescoring.kenlm is None:
        models = rescoring_view_of(rescoring)
        with nogil:
            rescored = automaton_rescore(view, models, one[0], <float> beam, step_limit)
    else:
        kenlm_models = kenlm_view_of(rescoring)
        with nogil:
            rescored = kenlm_rescore(view, kenlm_models, one[0], <float> beam, step_limit)
    if rescored.lattice.states.empty() and not one.states.empty():
        raise ValueError("rescore: expected a language_model that allows a path of the lattice, got one that gives "
                         "each a probability of 0")
    made.found.push_back(move(rescored.lattice))
    return made, rescored.truncated


def boosts(graph, BoostList boost, Lattices lattices, size_t index):
    """float32[links] and of each token of the last step: the cost that a boost added. The lattice must have tokens."""
    cdef const Lattice* one = lattice_of(lattices, index)
    of_links, of_ends = np.zeros(one.links.size(), np.float32), np.zeros(one.end_extras.size(), np.float32)
    cdef float[::1] links = of_links, ends = of_ends
    cdef float* first_link = &links[0] if links.shape[0] else NULL
    cdef float* first_end = &ends[0] if ends.shape[0] else NULL
    cdef OpenGraph view = open_view_of(graph)
    with nogil:
        cpp_boosts(view, boost.view, one[0], first_link, first_end)
    return of_links, of_ends
