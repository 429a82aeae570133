"""The border to the search kernel: takes addresses, returns paths, and launches it until every utterance is decoded."""

import threading

import weakref

import numpy as np

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy, memset

from arcbeam.gpu._cuda cimport Context, driver, ignore
from arcbeam.gpu._launch cimport Event, Stream
from arcbeam.gpu._memory cimport DeviceBuffer, MemoryPool
from arcbeam.ctc._boost cimport BoostList, each
from arcbeam.ctc.gpu._batch_memory cimport BatchMemory, BatchSizes
from arcbeam.ctc.gpu._boosts cimport DeviceBoosts
from arcbeam.ctc.gpu._device_looks cimport DeviceLooks
from arcbeam.ctc.gpu._models cimport DeviceRescoring
from arcbeam.ctc._lattices cimport Lattices
from arcbeam.ctc.gpu._lanes cimport Lanes, Undone
from arcbeam.ctc.gpu._lattice_memory cimport LatticeMemory
from arcbeam.arrays._looks cimport Looks
from arcbeam.ctc.gpu._request_buffers cimport LaneRequests
from arcbeam.ctc.gpu._paths cimport Paths
from arcbeam.ctc.gpu._streams cimport CudaStream
from arcbeam.ctc.gpu._rescoring_search cimport NewWordsParams, RescoringParams
from arcbeam.ctc.gpu._search cimport (
    ASKING, ASKING_ARCS, BOOSTED, BOOSTED_ASKING, BOOSTED_RESCORING, BUCKETED, NEW_WORDS, NEW_WORDS_RESCORING, PLAIN,
    RESCORING, DeviceGraph, LaneState, SearchKind, StreamView, UtteranceView, device_graph, kNeedsStreamRoom, kNoIndex,
    with_lattices,
)
from arcbeam.ctc.gpu._launches cimport Launches
from arcbeam.ctc.gpu._staging cimport Staging

from arcbeam.gpu import _cuda
from arcbeam.gpu.tuned import search_plan
from arcbeam.ctc.gpu._search import TooManyTokens
from arcbeam.errors import CapacityError, CudaOutOfMemoryError

cdef enum:
    SLICE_MS = 100  # of waiting between checks for signals


# What streams of a batch have.
cdef struct Traits:
    bint boost
    bint rules  # that may end the sentence
    bint links  # of which the end of the sentence gives a lattice


cdef Traits traits_of(list streams) except *:
    cdef Traits found = Traits(False, False, False)
    cdef CudaStream stream
    for stream in streams:
        found.boost |= stream.boost is not None
        found.rules |= stream.rules.num_rules != 0
        found.links |= stream.keeps_links
    return found


cdef bint is_longest_first(const int64_t[:, ::1] utterances) noexcept:
    cdef Py_ssize_t i
    for i in range(1, utterances.shape[0]):
        if utterances[i, 2] > utterances[i - 1, 2]:
            return False
    return True


cdef bint has_some(list items):
    """Whether one of them is not None."""
    for item in items:
        if item is not None:
            return True
    return False


cdef bint any_new_words(list boosts) except -1:
    """Whether one of the lists has new words."""
    for boost in boosts:
        if boost is not None and (<BoostList?> boost).new_words is not None:
            return True
    return False


@cython.final
@cython.no_gc
cdef class Searches:
    """What an engine keeps for a kind of search: its lanes, and its entries without lattices and with them."""

    cdef Context context
    cdef SearchKind kind
    cdef Lanes lanes
    cdef dict loaded  # entries by the name of their kernels

    def __cinit__(self, SearchKind kind not None, MemoryPool pool not None, Stream stream not None):
        self.context = pool.context
        self.kind = kind
        self.lanes = Lanes(kind, pool, stream)
        self.loaded = {kind.name: Launches(pool.context, kind)}

    cdef Launches entries(self, bint lattices, bint streams):
        """They are loaded when they are first asked for."""
        cdef SearchKind kind = with_lattices(self.kind, streams) if lattices else self.kind
        if kind.name not in self.loaded:
            self.loaded[kind.name] = Launches(self.context, kind)
        return <Launches> self.loaded[kind.name]


cdef class CudaEngine:
    """Lanes on one device over one graph. Calls from several Python threads take turns.

    Parameters
    ----------
    graph : arcbeam.Graph
    ordinal : int
        The device's number.
    options : arcbeam.DecoderOptions
    threads, lookup_threads : int
        The numbers of threads that gather log-probs of the host, and that answer when lanes ask the host.
    rescoring : arcbeam.ctc.rescoring.Rescoring, optional
    """

    cdef readonly Context context
    cdef readonly Stream stream
    cdef Stream copies
    cdef MemoryPool pool
    cdef DeviceGraph graph
    cdef object source  # the graph on the host
    cdef Event done
    cdef NewWordsParams all_params
    cdef RescoringParams* params  # of these; the plain search uses only its own part
    cdef DeviceRescoring rescoring  # None: the plain search
    cdef LaneRequests requests  # of the rescoring; None: lanes do not ask the host
    cdef SearchKind kind  # of this and the next two those of the batch
    cdef Lanes lanes
    cdef Launches launches
    cdef Searches searches
    cdef Searches boosted_searches, opened_searches  # made when a batch first needs them
    cdef DeviceBoosts boosting
    cdef list boosts  # of the batch's utterances; None: there is none
    cdef bint opens  # whether the kernel reads new words of utterances, if there are any
    cdef list streams  # whose chunks the utterances are; None: they are whole
    cdef list last  # whether these chunks are the last
    cdef Traits traits  # of these streams
    cdef DeviceBuffer columns  # of the graph's arcs; empty until a stream has endpoints
    cdef object all_streams  # that are alive
    cdef uint32_t num_lanes
    cdef BatchMemory batch
    cdef DeviceLooks device_looks
    cdef Staging staging
    cdef LatticeMemory lattices
    cdef float lattice_beam  # of the window that is being decoded; negative: no lattices are asked for
    cdef float wanted_beam  # of the batch
    cdef object room, lock
    cdef object tokens  # average tokens of a frame in the last batch; None: not known
    cdef int halvings  # of the lanes and of the windows, because memory was short
    cdef bint lean, in_flight

    def __init__(self, graph, int ordinal, options, *, size_t threads, size_t lookup_threads, rescoring=None):
        cdef size_t memory_limit = options.memory_limit or 0, taken
        cdef uint32_t max_active = options.max_active or 0
        self.lock = threading.RLock()
        self.all_streams = weakref.WeakSet()
        self.context = _cuda.context_of(ordinal)
        self.graph = device_graph(graph, self.context)
        self.source = graph
        if memory_limit and self.graph.bytes > memory_limit:
            raise CapacityError(f"memory_limit: the graph alone needs {self.graph.bytes:,} bytes on cuda:{ordinal}, "
                                f"but {memory_limit:,} are allowed; use a larger memory_limit")
        self.stream, self.copies = Stream(self.context), Stream(self.context)
        self.kind = PLAIN
        taken = self.graph.bytes
        if rescoring is not None:
            self.rescoring = DeviceRescoring(graph, rescoring, self.context, self.stream, options, taken=taken,
                                             lookup_threads=lookup_threads)
            taken += self.rescoring.device_bytes()
        self.pool = MemoryPool(self.context, memory_limit, taken)
        if self.rescoring is not None:
            self.requests = self.rescoring.open_requests(self.pool, self.stream)
            in_memory = BUCKETED if self.rescoring.bucketed_bytes() else RESCORING
            self.kind = in_memory if self.requests is None else ASKING if self.rescoring.large is None else ASKING_ARCS
        self.searches = Searches(self.kind, self.pool, self.stream)
        self.lanes = self.searches.lanes
        self.done = Event(self.context)
        self.batch = BatchMemory(self.pool, self.stream)
        self.columns = DeviceBuffer(self.pool, self.stream, "the columns of the graph")
        self.staging = Staging(self.pool, self.copies, threads)
        self.device_looks = DeviceLooks(self.stream)
        self.lattices = LatticeMemory(self.pool, self.stream, graph, threads)
        self.room = search_plan.first_room(max_active)
        memset(&self.all_params, 0, sizeof(self.all_params))
        self.params = &self.all_params.rescoring
        self.params.search.graph = self.graph.view
        self.params.search.blank_column = -1 if graph.blank is None else graph.blank
        self.params.search.beam, self.params.search.acoustic_scale = options.beam, options.acoustic_scale
        self.params.search.blank_penalty, self.params.search.max_active = options.blank_penalty, max_active
        if self.rescoring is not None:
            self.rescoring.describe(self.params)

    def decode(self, const int64_t[:, ::1] utterances, uint32_t columns, bint on_host, Looks looks=None,
               lattice_beam=None, boosts=None, streams=None, last=None):
        """Decodes a batch.

        Parameters
        ----------
        utterances : int64[batch, 4]
            Address, row stride in values, frames, and whether the values are float16. The memory must stay.
        columns : int
        on_host : bool
            Whether the addresses are the host's. Otherwise the engine's stream must have been told to wait for them.
        looks : arcbeam.arrays._looks.Looks, optional
            Looks at a few frames.
        lattice_beam : float, optional
            Asks for lattices: a cost of at least 0.
        boosts : BoostList, sequence of BoostList or None, or None
            Of all utterances, or of each.
        streams : list of CudaStream, optional
            The utterances are the next chunks of these. Paths are then those behind what is settled, and lattices those
            of streams that keep links, of sentences that have ended now and of streams that show theirs. If the batch
            fails, all streams are as before.
        last : list of bool
            Whether each is the last chunk of its stream.

        Returns
        -------
        paths : tuple
            The fields of `arcbeam.ctc.results.Paths`, and after them, if lattices are asked for, an
            `arcbeam.ctc._lattices.Lattices`.
        work : dict of counters, None where the kernel does not count
        bad : list of (utterance, frame, column, value)
            Where values are no log-probs, by utterance: the paths of these utterances are empty.
        """
        cdef Traits traits
        turn = self.turn()
        if streams is None:
            lists = each(boosts, utterances.shape[0])
            traits = Traits(has_some(lists), False, False)
        elif len(streams) == utterances.shape[0]:
            traits = traits_of(streams)
            lists = [(<CudaStream> stream).boost for stream in streams] if traits.boost else None
        else:
            raise ValueError(f"streams: expected one for each of {utterances.shape[0]} chunks, got {len(streams)}")
        if lattice_beam is None and traits.links:
            raise ValueError("lattice_beam: expected a cost, because there are streams that keep links, got None")
        if traits.boost and self.rescoring is not None:
            self.rescoring.check_boosts(lists)
        with turn:
            self.wanted_beam = -1.0 if lattice_beam is None else lattice_beam
            self.boosts = lists if traits.boost else None
            self.opens = traits.boost and (self.requests is not None or any_new_words(lists))
            self.streams, self.last, self.traits = streams, last, traits
            try:
                paths, work, bad = self._decode_somehow(utterances, columns, on_host, looks)
            finally:
                self.boosts = self.streams = self.last = None
        return paths, work, bad

    def new_stream(self, boost=None, rules=None, heard=None, saved=None, lattice_beam=None):
        """A CudaStream that begins, or goes on from what another one has saved, here or on a CPU. With a `lattice_beam` it
        keeps links, and its chunks are decoded with that beam.

        Raises
        ------
        UnsupportedError
            With a boost that no kernel takes with the language model.
        """
        if boost is not None and self.rescoring is not None:
            self.rescoring.check_boosts([boost])
        stream = CudaStream(self.pool, self.stream, self.source, self.rescoring, boost, rules, heard, saved,
                            lattice_beam)
        self.all_streams.add(stream)
        return stream

    def turn(self):
        """The lock to decode under; a thread that holds it may take it again.

        In a forked child this raises an error: the thread that held the lock at the fork does not exist there.
        """
        with self.context:
            pass
        return self.lock

    cdef _decode_somehow(self, const int64_t[:, ::1] utterances, uint32_t columns, bint on_host, Looks looks):
        """Decodes a batch, in fewer lanes at a time if memory is short."""
        while True:
            try:
                with self.context:
                    found = self._decode(utterances, columns, on_host, looks)
                self.halvings, self.lean = max(0, self.halvings - 1), False
                return found
            except TooManyTokens:
                self._give_back()
                raise
            except (CudaOutOfMemoryError, CapacityError):
                self._give_back()
                if self.lean:
                    self.halvings, self.lean = 0, False
                    raise
                if self.num_lanes > 1:
                    self.halvings += 1
                else:
                    self.lean = True
            except BaseException:
                self._give_back()
                raise

    def memory(self):
        """dict : bytes on the device by purpose, and ``pinned`` bytes of the host."""
        cdef size_t models = 0, bucketed = 0, boosts = 0, host = self.batch.host.pinned_bytes()
        with self.turn():
            if self.rescoring is not None:
                models = self.rescoring.device_bytes()
                host += self.rescoring.pinned_bytes()
                bucketed = self.rescoring.bucketed_bytes()
            host += self.device_looks.pinned_bytes() + self.lattices.pinned_bytes()
            kinds = self._all_searches()
            if self.boosting is not None:
                host += self.boosting.pinned_bytes()
                boosts = self.boosting.device_bytes()
            return {"graph": self.graph.bytes + self.columns.capacity, "language_models": models,
                    "lanes": sum([(<Searches> one).lanes.room_bytes() for one in kinds]),
                    "token_log": sum([(<Searches> one).lanes.log_bytes() for one in kinds]), "boosts": boosts,
                    "paths": self.batch.path_bytes(), "log_probs": self.staging.device_bytes(),
                    "batch": self.batch.other_bytes() + self.lattices.device_bytes(), "pinned": host + self.staging.pinned_bytes(),
                    "bucketed": bucketed, "streams": sum([stream.nbytes for stream in self.all_streams])}

    def release(self):
        """Gives back the memory that grows with batches, on device and host; the next batch grows it again."""
        with self.turn():
            self._give_back()
            self.halvings, self.lean = 0, False
            self.batch.release()
            self.device_looks.release()
            self.lattices.release()
            self.staging.release()
            if self.requests is not None:
                self.requests.release()

    @property
    def placement(self):
        """str : where the large language model lives; None without one."""
        return None if self.rescoring is None else self.rescoring.placement.name

    @property
    def host_lookups(self):
        """arcbeam.ctc.gpu._requests.HostLookups : the threads that answer lanes, for measurements, or None."""
        return None if self.requests is None else self.requests.lookups

    @property
    def numbering_s(self):
        """float : seconds that lattices took from the pool to the host's arrays, all batches together; for
        measurements."""
        return self.lattices.numbering_s

    # A batch

    cdef _decode(self, const int64_t[:, ::1] utterances, uint32_t columns, bint on_host, Looks looks):
        cdef Paths found = Paths(utterances.shape[0])
        cdef Lattices lattices = Lattices()
        cdef size_t with_links = 0
        table = np.asarray(utterances)
        order = np.arange(len(table)) if is_longest_first(utterances) else np.argsort(-table[:, 2], kind="stable")
        if self.wanted_beam >= 0:
            with_links = len(table)
            lattices.found.resize(with_links)
            if self.streams is not None:  # those that keep links come first
                others = np.array([not (<CudaStream> stream).keeps_links for stream in self.streams], np.bool_)
                order = order[np.argsort(others[order], kind="stable")]
                with_links -= np.count_nonzero(others)
        sorted_table = table[order]
        room = search_plan.LEAN if self.lean else self.room
        self.num_lanes = max(1, <uint32_t> len(table) >> self.halvings)
        if looks is not None and on_host:
            looks.at(utterances)
            looks = None
        if self.rescoring is not None:
            self.rescoring.begin_batch(self.stream)
        if self.boosts is not None:
            self._begin_boosts()
        if self.traits.rules and self.columns.capacity == 0:
            self.columns.write(self.source.columns.view(np.uint8))
        for first, last in self._windows(sorted_table, columns, on_host, room, with_links):
            self.lattice_beam = self.wanted_beam if first < with_links else -1.0
            try:
                self._plan(last - first, columns, room)
                self._start(sorted_table[first:last], columns, on_host, room, order[first:last], lattices)
                if looks is not None:
                    self.device_looks.fetch(looks, utterances, self.streams is not None)
                self.done.record(self.stream)
                self._finish(on_host, room, order[first:last])
                if looks is not None:
                    self.device_looks.look(looks)
            except BaseException:
                self._cancel()
                raise
            found.add(order[first:last], self.batch.results(), self.batch.paths())
        if self.streams is not None:
            self._take_states(found, utterances)
        work = found.work()
        if work["frames"]:
            self.tokens = work["tokens"] / work["frames"]
        if self.rescoring is not None:
            work |= self.rescoring.work()
        paths = found.paths
        return (paths if self.wanted_beam < 0 else (*paths, lattices)), work, sorted(found.bad)

    def _windows(self, table, uint32_t columns, bint on_host, room, size_t with_links):
        """What is decoded together, as ``[first, last)``: lattices are made of the first utterances alone."""
        parts = [(begin, end) for begin, end in ((0, with_links), (with_links, len(table))) if begin < end]
        if not on_host:
            return parts
        windows = []
        bytes_of = table[:, 2] * columns * np.where(table[:, 3] != 0, 2, 4)
        half_of_the_room = (self.pool.room() + self.staging.device_bytes()) // 2
        most = max(1, min(room.window_bytes >> self.halvings, half_of_the_room))
        for begin, end in parts:
            cuts = search_plan.windows_of(bytes_of[begin:end], most)
            windows += [(begin + first, begin + last) for first, last in cuts]
        return windows

    cdef int _begin_boosts(self) except -1:
        """Sees to it that the lists of the batch are on the device."""
        if self.boosting is None:
            self.boosting = DeviceBoosts(self.source, self.context, self.stream, self.pool)
            if self.rescoring is None:
                self.boosting.describe(self.params)
        self.boosting.have(self.boosts)
        if self.opens:
            if self.opened_searches is None:
                of_models = NEW_WORDS_RESCORING if self.requests is None else BOOSTED_ASKING
                self.opened_searches = Searches(
                    NEW_WORDS if self.rescoring is None else of_models, self.pool, self.stream)
            self.boosting.describe_slot(&self.all_params.slot)
        elif self.boosted_searches is None:
            self.boosted_searches = Searches(
                BOOSTED if self.rescoring is None else BOOSTED_RESCORING, self.pool, self.stream)
        return 0

    cdef int _plan(self, uint32_t utterances, uint32_t columns, room) except -1:
        """Chooses the kernel and the shape of its launch, and prepares the lanes."""
        cdef Searches searches = self.searches
        if self.boosts is not None:
            searches = self.opened_searches if self.opens else self.boosted_searches
        self.kind, self.lanes = searches.kind, searches.lanes
        self.launches = searches.entries(self.lattice_beam >= 0, self.streams is not None)
        shape = self.launches.choose(utterances, columns, room, self.tokens)
        self.num_lanes = max(1, min(utterances, self.launches.lanes_of(shape, columns, room)) >> self.halvings)
        self.launches.take(shape, columns, room, self.num_lanes, &self.params.search)
        # A lane that stops puts the tokens of shared memory into its spill.
        states = max(room.spill_states, self.params.search.shared_capacity)
        if self.lanes.most_states and not self.lean:
            memory = min(self.context.state.memory_bytes, self.pool.limit_bytes or self.context.state.memory_bytes)
            states = max(states, search_plan.room_ahead(self.lanes.most_states, self.kind.spill_bytes(1 << 16) / (1 << 16),
                                                      self.num_lanes, memory))
        self.lanes.have(self.num_lanes, states, room.log_entries)
        if self.lattice_beam >= 0:
            self.lanes.have_links(self.num_lanes, room.links)
        return 0

    # A window of the batch

    cdef int _start(self, const int64_t[:, ::1] utterances, uint32_t columns, bint on_host, room,
                    const int64_t[::1] members, Lattices lattices) except -1:
        """`members` are the window's utterances by their numbers in the batch."""
        cdef uint32_t n = <uint32_t> utterances.shape[0], i
        cdef uint64_t frames = 0
        cdef BatchSizes sizes = BatchSizes(n, self.num_lanes, 0, 0, 0, 0)
        if on_host:
            self.staging.begin(utterances, columns, self.num_lanes)
            sizes.pieces = self.staging.order.lines().size()
            with nogil:
                self.staging.send(1)
        for i in range(n):
            frames += <uint64_t> utterances[i, 2]
        sizes.boosts = 0 if self.boosts is None else n
        sizes.new_words = n if self.opens else 0
        sizes.streams = 0 if self.streams is None else n
        self.batch.lay_out(sizes, room.path_entries or min(frames + frames // 2 + 64 * n, <uint64_t> 1 << 31))
        self._describe_utterances(utterances, columns, on_host)
        if self.boosts is not None:
            self._describe_boosts(members)
        if self.streams is not None:
            self._describe_streams(members)
        self.lanes.begin(self.batch.lanes(), self.num_lanes)
        self.params.search.arrived = <const uint32_t*> <uintptr_t> self.staging.word.address
        self.params.search.piece_frames = self.staging.piece_frames
        self.params.search.wait_cycles = search_plan.WAIT_CYCLES
        self.params.search.columns = columns
        self.params.search.lattice = NULL
        if self.lattice_beam >= 0:
            self.lattices.begin(np.asarray(members), np.ascontiguousarray(utterances[:, 2]), lattices, self.lanes,
                                self.num_lanes, self.lattice_beam, room.lattice_bytes * (frames + n), self.boosts, self.streams)
            self.params.search.lattice = self.lattices.address()
        self.batch.send()
        if self.rescoring is not None:
            self.rescoring.begin(self.num_lanes, self.params)
        if sizes.pieces != 0:
            self.stream.wait_for(self.staging.first_sent)
        self._launch()
        if on_host:
            with nogil:
                self.staging.send(sizes.pieces)
        return 0

    cdef int _describe_utterances(self, const int64_t[:, ::1] utterances, uint32_t columns, bint on_host) except -1:
        cdef UtteranceView* view = self.batch.utterances()
        cdef uint32_t i
        for i in range(<uint32_t> utterances.shape[0]):
            self.batch.order()[i] = i
            view.frames, view.is_half = <uint32_t> utterances[i, 2], utterances[i, 3] != 0
            if on_host:
                view.log_probs, view.row_stride = <const void*> <uintptr_t> self.staging.memory.address, columns
                view.first_piece = self.staging.order.first_piece()[i]
            else:
                view.log_probs, view.row_stride = <const void*> <uintptr_t> utterances[i, 0], utterances[i, 1]
                view.first_piece = kNoIndex
            view += 1
        if on_host and self.batch.sizes.pieces != 0:
            memcpy(self.batch.pieces(), self.staging.order.lines().data(), self.batch.sizes.pieces * sizeof(uint32_t))
        return 0

    cdef int _describe_boosts(self, const int64_t[::1] members) except -1:
        cdef Py_ssize_t i
        for i in range(members.shape[0]):
            self.batch.boosts()[i] = self.boosting.view(self.boosts[members[i]])
            if self.opens:
                self.batch.new_words()[i] = self.boosting.new_words(self.boosts[members[i]])
        return 0

    cdef int _describe_streams(self, const int64_t[::1] members) except -1:
        cdef uint32_t tokens = search_plan.STREAM_TOKENS, entries = search_plan.STREAM_ENTRIES
        cdef StreamView* view = self.batch.streams()
        cdef Py_ssize_t i
        for i in range(members.shape[0]):
            (<CudaStream> self.streams[members[i]]).describe(view, self.last[members[i]], self.columns.address, tokens,
                                                             entries)
            view += 1
        return 0

    cdef int _launch(self) except -1:
        """Launches the kernel and asks for what it leaves; `done` has to be recorded next."""
        self.batch.describe(&self.all_params)
        if self.requests is not None:
            self.requests.watch()
        self.launches.start(&self.params.search, self.stream)  # on this stream all launches begin
        self.in_flight = True
        if self._asks_at_once():
            self._ask_back()
        return 0

    cdef bint _asks_at_once(self) noexcept nogil:
        """Whether copies back do not wait for the kernel, which may itself wait for log-probs and answers."""
        return (self.batch.host.is_pinned() and (self.lattice_beam < 0 or self.lattices.is_pinned())
                and (self.rescoring is None or self.rescoring.counted.is_pinned()))

    cdef int _ask_back(self) except -1 nogil:
        """Copies back what the host needs to know after a launch."""
        self.batch.ask_back()
        if self.rescoring is not None:
            self.rescoring.ask_back(self.stream)
        if self.lattice_beam >= 0:
            self.lattices.ask_back()
        return 0

    cdef int _finish(self, bint on_host, room, order) except -1:
        """Waits for the kernel, and launches it again while a lane needs more room, a cluster or log-probs."""
        while True:
            self._wait()
            if self.lattice_beam >= 0:
                self.lattices.take(self.lanes, self.num_lanes)
            stopped = self._grow(order)
            if not stopped:
                break
            self._give_clusters(stopped, room)
            if self.lattice_beam >= 0:
                self.lattices.again(self.lanes, self.num_lanes)
            if on_host:
                self.stream.wait_for(self.staging.last_sent)
            self.batch.send_lanes(self.num_lanes)
            self._launch()
            self.done.record(self.stream)
        if on_host:
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
                PyErr_CheckSignals()
        self.in_flight = False
        if self.requests is not None:
            with nogil:
                self.requests.rest()
            self.requests.check()
        if not self._asks_at_once():
            with nogil:
                self._ask_back()
                self.stream.synchronize()
        return 0

    cdef int _grow(self, const int64_t[::1] members) except -1:
        """Doubles the memory that is lacking; returns how many lanes have stopped."""
        cdef Undone undone
        self.lanes.grow(self.batch.lanes(), self.num_lanes, &undone)
        if self.requests is not None and undone.lanes:
            self.requests.answer(undone.requests, self.params)
        if undone.streams:
            self._grow_streams(members)
        if undone.paths:
            self.batch.grow_paths()
        return undone.lanes

    cdef int _grow_streams(self, const int64_t[::1] members) except -1:
        """Makes room for the states that lanes wait to leave."""
        cdef LaneState* state
        cdef CudaStream stream
        cdef uint32_t i
        for i in range(self.num_lanes):
            state = self.batch.lanes() + i
            if state.need == kNeedsStreamRoom:
                stream = self.streams[members[state.utterance]]
                stream.grow(state.num_tokens, state.log_size, self.batch.streams() + state.utterance)
                if stream.keeps_links:
                    self.lattices.grow_stream(stream, state.utterance, self.lanes.links_of(i))
                self.batch.send_stream(state.utterance)
        return 0

    cdef int _take_states(self, Paths found, const int64_t[:, ::1] utterances) except -1:
        """The batch has succeeded: all streams but those whose chunks were refused go on with their next states."""
        cdef Py_ssize_t i
        cdef uint64_t frames
        cdef uint32_t rule
        cdef dict ended = {utterance: (taken, fired) for utterance, taken, fired in found.ended}
        cdef set refused = {one[0] for one in found.bad}
        for i in range(utterances.shape[0]):
            if refused and i in refused:
                continue
            frames, rule = <uint64_t> utterances[i, 2], 0
            if ended and i in ended:
                frames, rule = ended[i]
            (<CudaStream> self.streams[i]).take(found.settled.data() + found.settled_begins[i],
                                                found.settled_counts[i], frames, rule, self.last[i])
        return 0

    cdef int _give_clusters(self, uint32_t stopped, room) except -1:
        """If the last utterances should have clusters, moves the lanes that stopped to the front; only they go on."""
        if self.batch.counters().queue < self.params.search.num_utterances or stopped > self.params.search.hot_lanes:
            return 0
        self.num_lanes = self.lanes.keep_stopped(self.batch.lanes(), self.num_lanes)
        self.launches.take(self.launches.cluster(), self.params.search.columns, room, self.num_lanes, &self.params.search)
        return self.lanes.have_spills(self.batch.lanes(), self.num_lanes, self.params.search.shared_capacity)

    cdef int _cancel(self) except -1:
        """Makes blocks stop after their utterance and waits for them, because the log-probs may be freed afterwards."""
        if self.in_flight:
            self.batch.stop(self.copies)
            self.staging.give_up()
        self.in_flight = False
        with nogil:  # result codes are ignored: the first error says more
            ignore(self.context.state, driver().stream_synchronize(self.stream.handle))
            self.staging.rest()
            if self.requests is not None:
                self.requests.rest()
        self.lattices.rest()
        return 0

    def _all_searches(self):
        """Of all kinds that there have been."""
        return [one for one in (self.searches, self.boosted_searches, self.opened_searches) if one is not None]

    cdef int _give_back(self) except -1:
        """Frees the memory that grows, after a failure."""
        cdef DeviceBuffer buffer
        for searches in self._all_searches():
            (<Searches> searches).lanes.clear()
        if self.context.enter_to_free():
            self.batch.clear()
            for buffer in (self.lattices.memory, self.lattices.steps):
                buffer.clear()
            self.staging.clear()
            if self.requests is not None:
                self.requests.clear()
            # Freed memory returns to the pool when the streams reach this point, and trimming returns it to the
            # device.
            ignore(self.context.state, driver().stream_synchronize(self.stream.handle))
            self.staging.rest()
            ignore(self.context.state, driver().pool_trim(self.pool.handle, 0))
            self.context.leave()
        return 0
