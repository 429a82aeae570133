# distutils: extra_compile_args = -O3
"""Posteriors of the words of a partial result, by the tokens that were alive when it was made."""

import numpy as np

from libc.stdint cimport uint32_t
from libcpp.memory cimport unique_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

from arcbeam.ctc.boost._boost cimport BoostList, BoostView, no_phrases
from arcbeam.ctc.streams._saved_search cimport SavedSearch, take_saved
from arcbeam.graph._graph_view cimport OpenGraph
from arcbeam.graph._words cimport WordReader


cdef extern from "decode/streams/live_posteriors.hpp" namespace "arcbeam::twin" nogil:
    cdef cppclass LiveLabels:
        LiveLabels(const OpenGraph&, const SavedSearch&) except +
        uint32_t last_writer(uint32_t entry)
        void append(uint32_t writer, vector[uint32_t]& to) except +
        vector[uint32_t] boost_states(const BoostView&, uint32_t settled) except +

    const uint32_t kNoSource
    vector[uint32_t] labels_along(const OpenGraph&, const uint32_t* arcs, size_t count) except +
    uint32_t boost_state_after(const BoostView&, const vector[uint32_t]& labels)
    vector[double] live_weights(const SavedSearch&, const BoostView&, const vector[uint32_t]& boost_states,
                                double scale) except +
    vector[double] live_posteriors(const vector[double]& weights, const vector[size_t]& in_common,
                                   size_t words) except +

cdef BoostList NOTHING = no_phrases()
cdef size_t NOT_READ = <size_t> -1


def word_posteriors(WordReader reader, BoostList boost, search, const uint32_t[::1] unsettled, size_t num_stable,
                    double scale):
    """float64[words]: the posterior of each word of a partial result; 1 for the `num_stable` first ones."""
    cdef SavedSearch saved
    cdef BoostView phrases = (NOTHING if boost is None else boost).view
    take_saved(search, saved)
    cdef const OpenGraph* graph = &reader.source.graph
    cdef vector[uint32_t] labels = labels_along(graph[0], saved.settled.data(), saved.settled.size())
    cdef uint32_t boost_state = boost_state_after(phrases, labels)
    labels.erase(labels.begin(), labels.begin() + reader.labels_of(labels, num_stable))
    cdef size_t shared = labels.size(), at, i
    cdef vector[uint32_t] after = labels_along(graph[0], &unsettled[0] if unsettled.shape[0] else NULL,
                                               unsettled.shape[0])
    labels.insert(labels.end(), after.begin(), after.end())
    cdef vector[string] words = reader.texts(labels)

    cdef unique_ptr[LiveLabels] live = unique_ptr[LiveLabels](new LiveLabels(graph[0], saved))
    cdef vector[size_t] in_common, of_writers
    cdef uint32_t writer
    of_writers.resize(saved.log.size() + 1, NOT_READ)  # the last is that of paths without labels
    for i in range(saved.tokens.size()):
        writer = live.get().last_writer(saved.entries[i])
        at = saved.log.size() if writer == kNoSource else writer
        if of_writers[at] == NOT_READ:
            labels.resize(shared)
            live.get().append(writer, labels)
            of_writers[at] = num_in_common(words, reader.texts(labels))
        in_common.push_back(of_writers[at])
    cdef vector[double] weights = live_weights(saved, phrases, live.get().boost_states(phrases, boost_state), scale)
    cdef vector[double] shares = live_posteriors(weights, in_common, words.size())
    found = np.ones(num_stable + words.size())
    cdef double[::1] into = found
    for i in range(words.size()):
        into[num_stable + i] = shares[i]
    return found


cdef size_t num_in_common(const vector[string]& words, const vector[string]& others):
    """How many words, from the first, are the same."""
    cdef size_t count = 0
    while count < words.size() and count < others.size() and words[count] == others[count]:
        count += 1
    return count
