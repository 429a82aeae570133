"""Streams and their rounds of chunks, in loops without Python: a round may have thousands of streams.

A round keeps arrays; results are made when they are first read, and refer to a part of their growing sentence.
"""

import weakref

import numpy as np

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy
from libcpp.vector cimport vector

from arcbeam.core._fetch cimport AHEAD, addresses_of, fetch, fetch_ahead, new_list, put_item
from arcbeam.graph._words cimport GrowingPath, PathPlace, read_paths
from arcbeam.streams.stream import fault_of
from arcbeam.streams.waiting import Waiting


cdef class SearchState:
    """What an engine keeps of a sentence between two chunks. `shows_lattice`: the next result has a lattice."""

    cdef uint64_t frames_taken(self) except? 0:
        """Frames of the sentence so far."""
        raise NotImplementedError

    cdef bint is_at(self, uint64_t frames, bint is_final) except -1:
        """Whether it has taken so many frames, was not interrupted, and has given its lattice only if `is_final`."""
        raise NotImplementedError

    cdef uint32_t rule_fired(self) except? 0xffffffff:
        """The number of the rule that has ended the sentence, from 1; 0 if it has not ended."""
        raise NotImplementedError

    cdef uint32_t hand_over(self, GrowingPath path) except? 0xffffffff:
        """Moves arcs settled since the last call to the path; returns `rule_fired()`."""
        raise NotImplementedError


cdef class Sentence(GrowingPath):
    """A sentence of a stream: its settled part, what is known from its beginning, and the confidences of its frames."""

    def __init__(self, open_reader, boost, uint64_t first_frame, lm_context, endpoint, posterior_scale, aggregation,
                 outputs=None, arcs=None, const float[::1] of_frames=None):
        super().__init__(open_reader, arcs)
        self.boost, self.first_frame, self.lm_context, self.endpoint = boost, first_frame, lm_context, endpoint
        self.posterior_scale, self.aggregation, self.outputs = posterior_scale, aggregation, outputs
        if of_frames is not None and of_frames.shape[0] > 0:
            self.of_frames.assign(&of_frames[0], &of_frames[0] + of_frames.shape[0])

    def confidences(self, size_t count):
        """float32[count]: those of the first frames."""
        cdef float[::1] into
        if count > self.of_frames.size():
            raise IndexError(f"expected at most {self.of_frames.size()} frames, got {count}")
        found = np.empty(count, np.float32)
        into = found
        if count > 0:
            memcpy(&into[0], self.of_frames.data(), count * sizeof(float))
        return found

    cdef object result(self, kind, results, size_t index, const Place& place):
        """The result for a place: one object for all callers, while it is referenced and the place is the latest."""
        found = None
        if self.last_made is not None and self.made_at == place.number:
            found = self.last_made()
        if found is None:
            endpoint = None if place.fired == 0 else list(self.endpoint.rules)[place.fired - 1]
            frames = self.first_frame + place.frames
            found = kind(results, index, self, place.settled, frames, place.is_final, endpoint)
            if self.last_made is None or self.made_at <= place.number:
                self.last_made, self.made_at = weakref.ref(found), place.number
        return found


cdef class SentenceStream(AnyStream):
    """A stream of speech: the sentence that it is in, its search, and its latest place."""

    @property
    def num_settled(self):
        """The arcs that all later results of the sentence begin with."""
        return len(self._sentence)

    @property
    def num_frames(self):
        """Frames that have been decoded so far: of all chunks, but for those that wait."""
        return self._sentence.first_frame + self.place.frames

    @property
    def _is_stopped(self):
        """Whether the sentence has ended at an endpoint."""
        return self.place.fired != 0

    cdef bint is_whole(self) except -1:
        """False once something was raised between the search's first step with a chunk and the stream's result."""
        return self._state.is_at(self.place.frames, self.place.is_final)

    @property
    def _is_whole(self):
        return self.is_whole()

    def _become(self, SentenceStream fresh, list waiting, bint last_came):
        """Has what the other stream has, in one step; these frames wait, too, and the last chunk may have come."""
        waiting = fresh._waiting + waiting
        self._state, self._sentence, self._lattice = fresh._state, fresh._sentence, fresh._lattice
        self.results, self.index, self.place, self.made = fresh.results, fresh.index, fresh.place, fresh.made
        self._waiting, self._last_came = waiting, fresh._last_came or last_came

    def _begin_sentence(self, SearchState state, Sentence sentence, uint64_t frames, results):
        """Begins a sentence, or continues one after so many frames; `results` have an empty path, and nothing waits."""
        self._state, self._sentence = state, sentence
        self._waiting, self._last_came, self._lattice = [], False, None
        self.results, self.index, self.made = results, 0, None
        self.place = Place(0, sentence.settled.size(), frames, 0, False)

    def _end_sentence(self, results, uint32_t fired):
        """Ends the sentence with the only one of these results; `fired`: the rule that has ended it, or 0."""
        self.results, self.index, self.made = results, 0, None
        self.place = Place(1, self._sentence.settled.size(), self.place.frames, fired, True)

    def _latest(self, kind):
        """The latest result, which `kind` makes at its first read."""
        if self.made is None:
            self.made = self._sentence.result(kind, self.results, self.index, self.place)
        return self.made


cdef class Round:
    """What the chunks of some streams have brought: each stream takes its own, at once or with its outputs."""
    # A stream whose search has taken a chunk, and which does not take the result because of an exception, is broken;
    # the others have their chunks, or are as before. While a stream takes its chunk, only copies of what it keeps may
    # raise. `kind` makes a result of: results, index, sentence, settled arcs, frames, is final, endpoint.
    # Streams at the places `later` have more outputs than the best path; `take_later` gets these. `refused`: results of
    # chunks not taken.

    cdef dict items  # those that have been made, by place
    cdef list sentences
    cdef vector[Place] places  # without a number where the result was there before, as an item
    cdef object kind, results
    cdef dict with_outputs  # the Results of chunks that have more than those
    cdef list last  # until all have taken their chunks, as what follows
    cdef vector[void*] streams
    cdef dict lattices  # of the sentences that end here
    cdef object inputs
    cdef const int64_t[:, ::1] table  # of the chunks
    cdef size_t columns
    cdef const float[::1] of_frames  # confidences
    cdef const int64_t[::1] begins  # of each chunk among them

    def __init__(self, list streams, list sentences, kind, results, set later, lattices, dict refused, list last,
                 inputs, size_t columns, confidences):
        cdef size_t i, n = len(streams)
        self.kind, self.results, self.with_outputs = kind, results, {}
        self.items, self.sentences = refused, sentences
        self.places.resize(n)
        addresses_of(streams, self.streams)  # which `taking` has checked
        self.last, self.inputs, self.columns, self.lattices = last, inputs, columns, {}
        self.table = inputs.table
        if confidences is not None:
            self.of_frames, self.begins = confidences
        for i in range(n):
            fetch_parts(self.streams, i)
            fetch_end(self.streams, i + AHEAD)
            if refused and i in refused:
                continue
            if lattices is not None:
                self._keep_lattice(<SentenceStream> self.streams[i], i, lattices)
            if not later or i not in later:
                self._take(<SentenceStream> self.streams[i], i)

    def take_later(self, dict with_outputs):
        """The other streams take their chunks, with these results."""
        cdef size_t i
        self.with_outputs = with_outputs
        for i in with_outputs:
            self._take(<SentenceStream> self.streams[i], i)
        self.of_frames = self.begins = self.table = None
        self.last = self.inputs = self.lattices = None
        self.streams.clear()

    cdef int _keep_lattice(self, SentenceStream stream, size_t i, lattices) except -1:
        """Copies the lattice of a sentence that ends here."""
        if (stream._sentence.outputs is not None and not stream.place.is_final
                and (self.last[i] or stream._state.rule_fired() != 0)):
            self.lattices[i] = lattices.copied(i)
        return 0

    cdef int _take(self, SentenceStream stream, size_t i) except -1:
        """Takes what was found for a chunk."""
        cdef Place* place = &stream.place
        cdef Sentence sentence = stream._sentence
        cdef uint64_t frames = self.table[i, 2], taken = stream._state.frames_taken() - place.frames
        cdef uint32_t fired = stream._state.rule_fired()
        cdef bint last = self.last[i]
        waiting = None
        if taken < frames:
            waiting = Waiting(self.inputs.rows(i, taken, self.columns),
                              None if stream._method is None else self.rest_of(i, taken, frames))
        lattice = self.lattices.get(i) if self.lattices else None
        if stream._posteriors and not last and fired == 0:
            self.keep_live(i, stream._state)
        if place.fired == 0:
            if stream._method is not None and taken > 0:
                self.keep_confidences(sentence, i, taken)
            place.fired = stream._state.hand_over(sentence)
            place.frames += taken
            place.number, place.settled = place.number + 1, sentence.settled.size()
            place.is_final = last or place.fired != 0
            stream.results, stream.index, stream.made = self.results_of(i), i, None
            self.places[i] = place[0]
        if lattice is not None:
            stream._lattice = lattice
        if waiting is not None:
            stream._waiting.append(waiting)
        stream._last_came = last
        if self.places[i].number == 0:
            self.items[i] = stream._latest(self.kind)  # the sentence has ended before
        return 0

    cdef int keep_live(self, size_t i, SearchState state) except -1:
        """Keeps what is alive for the posteriors of a result, or the error: the stream continues without it."""
        try:
            self.results.live[i] = state.search()
        except Exception as error:
            self.results.live[i] = error
        return 0

    cdef int keep_confidences(self, Sentence sentence, size_t i, uint64_t taken) except -1:
        """Keeps those of the frames of a chunk that the sentence has taken."""
        cdef const float* begin = &self.of_frames[self.begins[i]]
        sentence.of_frames.insert(sentence.of_frames.end(), begin, begin + taken)
        return 0

    cdef object rest_of(self, size_t i, uint64_t taken, uint64_t frames):
        """float32[frames - taken]: the confidences of the other frames of a chunk."""
        return np.array(self.of_frames[self.begins[i] + taken:self.begins[i] + frames])

    cdef object results_of(self, size_t i):
        return self.with_outputs.get(i, self.results) if self.with_outputs else self.results

    def __len__(self):
        return self.places.size()

    def item(self, size_t i):
        """A result."""
        found = self.items.get(i)
        if found is None:
            found = (<Sentence> self.sentences[i]).result(self.kind, self.results_of(i), i, self.places[i])
            self.items[i] = found
        return found

    def texts(self):
        """list of str: the texts of all, made together but for those of results that have been made."""
        # A text is known where nothing was decoded since it was made: the sentence is as it was.
        cdef const uint32_t[::1] arcs
        cdef const int64_t[::1] begins, lengths
        cdef vector[PathPlace] unknown
        cdef PathPlace one
        cdef Sentence sentence
        cdef const Place* place
        cdef size_t i, n = self.places.size()
        cdef list found = [None] * n
        cdef vector[void*] paths
        cdef bint has_items = bool(self.items)
        addresses_of(self.sentences, paths)
        arcs, begins, lengths = self.results.paths[:3]
        unknown.reserve(n)
        for i in range(n):
            fetch_ahead(paths, i)
            place = &self.places[i]
            if has_items and i in self.items:
                found[i] = self.items[i].text
                continue
            sentence = <Sentence> paths[i]
            one.at = number_of(place[0])
            if sentence.text_at == one.at:
                put_item(found, i, sentence.text_before)
                continue
            one.path, one.settled, one.size, one.index = paths[i], place.settled, lengths[i], i
            one.arcs = &arcs[begins[i]] if one.size else NULL
            unknown.push_back(one)
        read_paths(unknown, found)
        return found


cdef uint64_t number_of(const Place& place) noexcept:
    """A number, not 0, for what the text of a place depends on."""
    return 2 * place.frames + place.is_final + 1


cdef int fetch_parts(const vector[void*]& streams, size_t i) except -1:
    """Fetches a stream, and the search and sentence of one before it, which a loop that is at stream i will read."""
    if i + 3 * AHEAD < streams.size():
        fetch(streams[i + 3 * AHEAD])
    if i + 2 * AHEAD < streams.size():
        fetch(<void*> (<SentenceStream> streams[i + 2 * AHEAD])._state)
        fetch(<void*> (<SentenceStream> streams[i + 2 * AHEAD])._sentence)
    return 0


cdef int fetch_end(const vector[void*]& streams, size_t i) except -1:
    """Fetches where the arcs of a stream's sentence end."""
    cdef Sentence sentence
    if i < streams.size():
        sentence = (<SentenceStream> streams[i])._sentence
        fetch(sentence.settled.data() + sentence.settled.size())
    return 0


def taking(list streams):
    """The states and sentences of streams; why some take no chunk; whether any has more outputs; places by method; and
    places of those whose chunks are logits."""
    cdef size_t i, n = len(streams)
    cdef SentenceStream stream
    cdef bint has_outputs = False
    cdef list states = new_list(n), sentences = new_list(n)
    cdef dict methods = {}, stopped = {}
    cdef list of_method = None, logits = []
    cdef object method = None
    cdef vector[void*] at
    addresses_of(streams, at)
    for i in range(n):
        fetch_parts(at, i)
        stream = <SentenceStream?> <object> at[i]
        put_item(states, i, stream._state)
        put_item(sentences, i, stream._sentence)
        stream._state.shows_lattice = stream._interim_answers
        if stream._last_came or not stream.is_whole():
            stopped[i] = fault_of(stream)
        elif stream._method is not None:
            if stream._method is not method:  # those of a server have mostly the same, whose hash takes Python
                method = stream._method
                of_method = methods.setdefault(method, [])
            of_method.append(i)
        if stream._logits:
            logits.append(i)
        has_outputs = has_outputs or stream._sentence.outputs is not None
    return states, sentences, stopped, has_outputs, methods, logits
