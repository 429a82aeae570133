# distutils: extra_compile_args = -O3
"""Searches in the middle of a sentence, and their contexts, between Python and C++."""

import numpy as np

from arcbeam.arrays._vectors cimport into_vector


cdef int take_lm_context(lm_context, LmContext& into) except -1:
    """Of an arcbeam.ctc.streams.sentences.LmContext; None is the beginning of a sentence."""
    if lm_context is not None:
        into_vector[uint32_t](into.words, np.array(lm_context.words, np.uint32))
        into.after_start = lm_context.after_start
    return 0


cdef int take_saved(saved, SavedSearch& into) except -1:
    """Of an arcbeam.ctc.streams.sentences.SavedSearch."""
    cdef size_t i
    cdef const uint32_t[::1] settled = saved.settled, sources = saved.sources, arcs = saved.arcs
    cdef const uint32_t[::1] states = saved.states, entries = saved.entries
    cdef const float[::1] costs = saved.costs
    into.settled.resize(settled.shape[0])
    for i in range(into.settled.size()):
        into.settled[i] = settled[i]
    into.log.resize(arcs.shape[0])
    for i in range(into.log.size()):
        into.log[i].source, into.log[i].arc = sources[i], arcs[i]
    into.tokens.resize(states.shape[0])
    into.entries.resize(states.shape[0])
    for i in range(into.tokens.size()):
        into.tokens[i], into.entries[i] = Token(states[i], costs[i]), entries[i]
    into.offset, into.frames, into.dead_frames = saved.offset, saved.frames, saved.dead_frames
    into.fired, into.alive, into.ended = saved.fired, saved.alive, saved.ended
    into.keeps_links = saved.links is not None
    return 0 if saved.links is None else take_links(saved.links, into.links)


cdef int take_links(links, KeptLinks& into) except -1:
    """Of an arcbeam.ctc.streams.saved_lattice.SavedLinks."""
    cdef size_t i
    cdef const uint32_t[::1] sources = links.sources, targets = links.targets, arcs = links.arcs
    cdef const float[::1] slacks = links.slacks
    into.losers.resize(arcs.shape[0])
    for i in range(into.losers.size()):
        into.losers[i] = Link(sources[i], targets[i], arcs[i], slacks[i])
    into_vector[uint32_t](into.first_entry, links.first_entry)
    into_vector[float](into.costs, links.costs)
    into_vector[double](into.offsets, links.offsets)
    return 0


cdef dict fields_of(const SavedSearch& saved, bint with_lattice):
    """The fields of SavedSearch but `settled` and `dead_frames`; `with_lattice`, also saved_lattice.GOES_ON."""
    cdef size_t i
    sources, arcs = np.empty(saved.log.size(), np.uint32), np.empty(saved.log.size(), np.uint32)
    cdef uint32_t[::1] into_sources = sources, into_arcs = arcs
    for i in range(saved.log.size()):
        into_sources[i], into_arcs[i] = saved.log[i].source, saved.log[i].arc
    states, costs = np.empty(saved.tokens.size(), np.uint32), np.empty(saved.tokens.size(), np.float32)
    entries = np.empty(saved.tokens.size(), np.uint32)
    cdef uint32_t[::1] into_states = states, into_entries = entries
    cdef float[::1] into_costs = costs
    for i in range(saved.tokens.size()):
        into_states[i], into_costs[i], into_entries[i] = saved.tokens[i].state, saved.tokens[i].cost, saved.entries[i]
    found = {"sources": sources, "arcs": arcs, "states": states, "costs": costs, "entries": entries,
            "offset": saved.offset, "frames": saved.frames, "fired": saved.fired, "alive": saved.alive}
    return found | link_fields_of(saved.links) if with_lattice else found


cdef dict link_fields_of(const KeptLinks& links):
    cdef size_t i, n = links.losers.size()
    sources, targets, arcs = (np.empty(n, np.uint32) for _ in range(3))
    slacks = np.empty(n, np.float32)
    cdef uint32_t[::1] into_sources = sources, into_targets = targets, into_arcs = arcs
    cdef float[::1] into_slacks = slacks
    for i in range(n):
        into_sources[i], into_targets[i] = links.losers[i].source, links.losers[i].target
        into_arcs[i], into_slacks[i] = links.losers[i].arc, links.losers[i].slack
    return {"loser_sources": sources, "loser_targets": targets, "loser_arcs": arcs, "loser_slacks": slacks,
            "log_costs": np.array(links.costs, np.float32), "offsets": np.array(links.offsets, np.float64)}
