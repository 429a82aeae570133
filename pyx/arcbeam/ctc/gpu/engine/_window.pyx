# distutils: extra_compile_args = -O3
"""The part of a batch that is decoded at a time: describes it, launches the search, and again until all is decoded."""

import numpy as np

cimport cython
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy, memset

from arcbeam.core._fetch cimport AHEAD, fetch
from arcbeam.core._interrupts cimport SLICE_MS, check_interrupts
from arcbeam.ctc.gpu.engine._batch_memory cimport BatchSizes
from arcbeam.ctc.gpu.searches._lanes cimport Undone
from arcbeam.ctc.gpu.searches._search_view cimport LaneState, StreamView, UtteranceView, kNeedsStreamRoom, kNoIndex
from arcbeam.ctc.gpu._streams cimport CudaStream
from arcbeam.gpu._cuda cimport driver, ignore

from arcbeam.gpu.tuned import search_plan


@cython.final
cdef class Window:
    """One launch at a time: `prepare` a batch, `plan`, `start` and `finish` each window, `cancel` after an error."""

    def __cinit__(self, DeviceGraph graph not None, options, MemoryPool pool not None, Stream stream not None,
                  Stream copies not None, DeviceRescoring rescoring, LaneRequests requests, AnswerEngine answers not None,
                  size_t threads):
        self.pool, self.stream, self.copies = pool, stream, copies
        self.graph, self.rescoring, self.requests = graph.source, rescoring, requests
        self.done = Event(pool.context)
        self.batch = BatchMemory(pool, stream)
        self.graph_columns = DeviceBuffer(pool, stream, "the columns of the graph")
        self.staging = Staging(pool, copies, threads)
        self.lattices = LatticeMemory(pool, stream, self.graph, answers)
        memset(&self.all_params, 0, sizeof(self.all_params))
        self.params = &self.all_params.rescoring
        self.params.search.graph = graph.view
        self.params.search.blank_column = -1 if self.graph.blank is None else self.graph.blank
        self.params.search.beam, self.params.search.acoustic_scale = options.beam, options.acoustic_scale
        self.params.search.blank_penalty = options.blank_penalty
        self.params.search.max_active = options.max_active or 0
        if rescoring is not None:
            rescoring.describe(self.params)

    cdef int prepare(self, BatchOptions options, object room, uint32_t columns, bint on_host) except -1:
        """Takes what all windows of a batch share, and sees to it that lists and tables are on the device."""
        self.options, self.room, self.columns, self.on_host = options, room, columns, on_host
        if self.rescoring is not None:
            self.rescoring.begin_batch(self.stream)
        if options.boosts is not None:
            if self.boosting is None:
                self.boosting = DeviceBoosts(self.graph, self.pool.context, self.stream, self.pool)
                if self.rescoring is None:
                    self.boosting.describe(self.params)
            self.boosting.have(options.boosts)
            if options.opens:
                self.boosting.describe_slot(&self.all_params.slot)
        if options.has_rules and self.graph_columns.capacity == 0:
            self.graph_columns.write(self.graph.columns.view(np.uint8))
        return 0

    cdef int plan(self, Search search, uint32_t utterances, float lattice_beam, tokens, int halvings, bint lean) except -1:
        """Chooses the launch and prepares the lanes, fewer and smaller ones if memory is short. `tokens`: expected."""
        cdef size_t memory = self.pool.context.state.memory_bytes
        self.lattice_beam, self.lanes = lattice_beam, search.lanes
        self.launches = search.entries(lattice_beam >= 0, self.options.streams is not None)
        shape = self.launches.choose(utterances, self.columns, self.room, tokens)
        self.num_lanes = max(1, min(utterances, self.launches.lanes_of(shape, self.columns, self.room)) >> halvings)
        self.launches.take(shape, self.columns, self.room, self.num_lanes, &self.params.search)
        # A lane that stops puts the tokens of shared memory into its spill.
        states = max(self.room.spill_states, self.params.search.shared_capacity)
        if self.lanes.most_states and not lean:
            memory = min(memory, self.pool.limit_bytes or memory)
            states = max(states, search_plan.room_ahead(
                self.lanes.most_states, search.kind.spill_bytes(1 << 16) / (1 << 16), self.num_lanes, memory))
        self.lanes.have(self.num_lanes, states, self.room.log_entries)
        if lattice_beam >= 0:
            self.lanes.have_links(self.num_lanes, self.room.links)
        return 0

    cdef int start(self, const int64_t[:, ::1] utterances, const int64_t[::1] members, Lattices lattices) except -1:
        """Describes the window to the kernel and launches it. `members`: the numbers of its utterances in the batch."""
        # Work that is added to the stream between this and `finish` is done when `finish` returns.
        cdef uint32_t n = <uint32_t> utterances.shape[0], i
        cdef uint64_t frames = 0
        cdef BatchSizes sizes = BatchSizes(n, self.num_lanes, 0, 0, 0, 0)
        self.members = members
        if self.on_host:
            self.staging.begin(utterances, self.columns, self.num_lanes)
            sizes.pieces = self.staging.order.lines().size()
            with nogil:
                self.staging.send(1)
        for i in range(n):
            frames += <uint64_t> utterances[i, 2]
        sizes.boosts = 0 if self.options.boosts is None else n
        sizes.new_words = n if self.options.opens else 0
        sizes.streams = 0 if self.options.streams is None else n
        self.batch.lay_out(sizes, self.room.path_entries or min(frames + frames // 2 + 64 * n, <uint64_t> 1 << 31))
        self._describe_utterances(utterances)
        if self.options.boosts is not None:
            self._describe_boosts()
        if self.options.streams is not None:
            self._describe_streams()
        self.lanes.begin(self.batch.lanes(), self.num_lanes)
        self.params.search.arrived = <const uint32_t*> <uintptr_t> self.staging.word.address
        self.params.search.piece_frames = self.staging.piece_frames
        self.params.search.wait_cycles = search_plan.WAIT_CYCLES
        self.params.search.columns = self.columns
        self.params.search.lattice = NULL
        if self.lattice_beam >= 0:
            self.lattices.begin(np.asarray(members), np.ascontiguousarray(utterances[:, 2]), lattices,
                                self.options.keeps_lattices, self.lanes, self.num_lanes, self.lattice_beam,
                                self.room.lattice_bytes * (frames + n), self.options.boosts, self.options.streams)
            self.params.search.lattice = self.lattices.address()
        self.batch.send()
        if self.rescoring is not None:
            self.rescoring.begin(self.num_lanes, self.params)
        if sizes.pieces != 0:
            self.stream.wait_for(self.staging.first_sent)
        self._launch()
        if self.on_host:
            with nogil:
                self.staging.send(sizes.pieces)
        return 0

    cdef int _describe_utterances(self, const int64_t[:, ::1] utterances) except -1:
        cdef UtteranceView* view = self.batch.utterances()
        cdef uint32_t i, start = self.params.search.graph.start
        for i in range(<uint32_t> utterances.shape[0]):
            self.batch.order()[i] = i
            view.frames, view.is_half = <uint32_t> utterances[i, 2], utterances[i, 3] != 0
            view.start = start if self.options.starts is None else self.options.starts[self.members[i]]
            if self.on_host:
                view.log_probs = <const void*> <uintptr_t> self.staging.memory.address
                view.row_stride = self.columns
                view.first_piece = self.staging.order.first_piece()[i]
            else:
                view.log_probs, view.row_stride = <const void*> <uintptr_t> utterances[i, 0], utterances[i, 1]
                view.first_piece = kNoIndex
            view += 1
        if self.on_host and self.batch.sizes.pieces != 0:
            memcpy(self.batch.pieces(), self.staging.order.lines().data(), self.batch.sizes.pieces * sizeof(uint32_t))
        return 0

    cdef int _describe_boosts(self) except -1:
        cdef Py_ssize_t i
        for i in range(self.members.shape[0]):
            boost = self.options.boosts[self.members[i]]
            self.batch.boosts()[i] = self.boosting.view(boost)
            if self.options.opens:
                self.batch.new_words()[i] = self.boosting.new_words(boost)
        return 0

    cdef int _describe_streams(self) except -1:
        cdef uint32_t tokens = search_plan.STREAM_TOKENS, entries = search_plan.STREAM_ENTRIES
        cdef StreamView* view = self.batch.streams()
        cdef CudaStream stream
        cdef Py_ssize_t i
        for i in range(self.members.shape[0]):
            if i + AHEAD < self.members.shape[0]:
                fetch(self.options.states[self.members[i + AHEAD]])
            stream = <CudaStream> self.options.states[self.members[i]]
            stream.describe(view, self.options.last[self.members[i]], self.graph_columns.address, tokens, entries)
            view += 1
        return 0

    cdef int _launch(self) except -1:
        """Launches the kernel and queues the copies of its results; `done` has to be recorded next."""
        self.batch.describe(&self.all_params)
        if self.requests is not None:
            self.requests.watch()
        self.launches.start(&self.params.search, self.stream)  # on this stream all launches begin
        self.in_flight = True
        if self._copies_now():
            self._copy_back()
        return 0

    cdef bint _copies_now(self) noexcept nogil:
        """Whether copies back do not wait for the kernel, which may itself wait for log-probs and answers."""
        return (self.batch.host.is_pinned() and (self.lattice_beam < 0 or self.lattices.is_pinned())
                and (self.rescoring is None or self.rescoring.counted.is_pinned()))

    cdef int _copy_back(self) except -1 nogil:
        """Copies back what the host reads after a launch."""
        self.batch.copy_back()
        if self.rescoring is not None:
            self.rescoring.copy_back(self.stream)
        if self.lattice_beam >= 0:
            self.lattices.copy_back()
        return 0

    cdef int finish(self) except -1:
        """Waits for the kernel, and launches it again while a lane needs more room, a cluster or log-probs."""
        self.done.record(self.stream)
        while True:
            self._wait()
            if self.lattice_beam >= 0:
                self.lattices.take(self.lanes, self.num_lanes)
            stopped = self._grow()
            if not stopped:
                break
            self._give_clusters(stopped)
            if self.lattice_beam >= 0:
                self.lattices.again(self.lanes, self.num_lanes)
            if self.on_host:
                self.stream.wait_for(self.staging.last_sent)
            self.batch.send_lanes(self.num_lanes)
            self._launch()
            self.done.record(self.stream)
        if self.on_host:
            with nogil:
                self.staging.finish()
        return 0

    cdef int _wait(self) except -1:
        cdef int reached = 0
        while not reached:
            with nogil:
                if self.lattice_beam >= 0:
                    reached = self.lattices.wait(self.done, SLICE_MS)
                else:
                    reached = self.done.wait(SLICE_MS)
            if not reached:
                check_interrupts()
        self.in_flight = False
        if self.requests is not None:
            with nogil:
                self.requests.stop()
            self.requests.check()
        if not self._copies_now():
            with nogil:
                self._copy_back()
                self.stream.synchronize()
        return 0

    cdef int _grow(self) except -1:
        """Doubles the memory that is lacking; returns how many lanes have stopped."""
        cdef Undone undone
        self.lanes.grow(self.batch.lanes(), self.num_lanes, &undone)
        if self.requests is not None and undone.lanes:
            self.requests.answer(undone.requests, self.params)
        if undone.streams:
            self._grow_streams()
        if undone.paths:
            self.batch.grow_paths()
        return undone.lanes

    cdef int _grow_streams(self) except -1:
        """Makes room for the states that lanes wait to leave."""
        cdef LaneState* state
        cdef CudaStream stream
        cdef uint32_t i
        for i in range(self.num_lanes):
            state = self.batch.lanes() + i
            if state.need == kNeedsStreamRoom:
                stream = self.options.streams[self.members[state.utterance]]
                stream.grow(state.num_tokens, state.log_size, self.batch.streams() + state.utterance)
                if stream.keeps_links:
                    self.lattices.grow_stream(stream, state.utterance, self.lanes.links_of(i))
                self.batch.send_stream(state.utterance)
        return 0

    cdef int _give_clusters(self, uint32_t stopped) except -1:
        """If the last utterances should have clusters, moves stopped lanes to the front; only they continue."""
        if self.batch.counters().queue < self.params.search.num_utterances or stopped > self.params.search.hot_lanes:
            return 0
        self.num_lanes = self.lanes.keep_stopped(self.batch.lanes(), self.num_lanes)
        self.launches.take(self.launches.cluster(), self.columns, self.room, self.num_lanes, &self.params.search)
        return self.lanes.have_spills(self.batch.lanes(), self.num_lanes, self.params.search.shared_capacity)

    cdef int cancel(self) except -1:
        """Makes blocks stop after their utterance and waits for them, because the log-probs may be freed afterwards."""
        if self.in_flight:
            self.batch.stop(self.copies)
            self.staging.cancel()
        self.in_flight = False
        with nogil:  # result codes are ignored: the first error says more
            ignore(self.pool.context.state, driver().stream_synchronize(self.stream.handle))
            self.staging.drain()
            if self.requests is not None:
                self.requests.stop()
        self.lattices.cancel()
        return 0

    cdef int end_batch(self) except -1:
        """Releases the streams and lists of the batch, which only their owners should keep alive."""
        self.options = self.members = None
        return 0

    cdef int clear(self) except -1:
        """Frees the memory that grows, after a failure; the context has been entered."""
        self.batch.clear()
        self.lattices.memory.clear()
        self.lattices.steps.clear()
        self.staging.clear()
        if self.requests is not None:
            self.requests.clear()
        self.staging.drain()
        return 0

    cdef int release(self) except -1:
        """Gives back what `clear` keeps, on device and host."""
        self.batch.release()
        self.lattices.release()
        self.staging.release()
        if self.requests is not None:
            self.requests.release()
        return 0

    cdef size_t pinned_bytes(self):
        """Of the host, without those of language models."""
        cdef size_t boosts = 0 if self.boosting is None else self.boosting.pinned_bytes()
        return self.batch.host.pinned_bytes() + self.staging.pinned_bytes() + self.lattices.pinned_bytes() + boosts
