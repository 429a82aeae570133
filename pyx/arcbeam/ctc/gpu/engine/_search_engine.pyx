"""The GPU engine: takes addresses, returns paths; a batch is decoded in parts that memory has room for."""

import weakref

import numpy as np

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t

from arcbeam.core._fetch cimport fetch_ahead
from arcbeam.gpu._engine cimport BatchEngine
from arcbeam.gpu._memory cimport MemoryPool
from arcbeam.ctc.gpu.engine._batch_options cimport BatchOptions
from arcbeam.ctc.gpu._device_input_checks cimport DeviceInputChecks
from arcbeam.ctc.gpu._device_log_softmax cimport DeviceLogSoftmax
from arcbeam.ctc.gpu.models._models cimport DeviceRescoring
from arcbeam.ctc.lattice._lattice cimport AnswerEngine
from arcbeam.ctc.lattice._lattices cimport Lattices
from arcbeam.arrays._input_checks cimport InputChecks
from arcbeam.ctc.gpu.models._request_buffers cimport LaneRequests
from arcbeam.ctc.gpu.engine._paths cimport Paths
from arcbeam.ctc.gpu.searches._search cimport DeviceGraph, device_graph
from arcbeam.ctc.gpu.searches._searches cimport Searches
from arcbeam.ctc.gpu._streams cimport CudaStream, SpareRooms
from arcbeam.ctc.gpu.engine._window cimport Window

from arcbeam.arrays.batches import start_states
from arcbeam.gpu.tuned import search_plan
from arcbeam.ctc.gpu.searches._search import TooManyTokens
from arcbeam.ctc.gpu.searches import kernels
from arcbeam.core.errors import CapacityError, CudaOutOfMemoryError


cdef class CudaEngine(BatchEngine):
    """Lanes on one device over one graph; calls take turns. `threads` gather log-probs, `lookup_threads` look up."""

    cdef DeviceGraph graph
    cdef DeviceRescoring rescoring  # None: the plain search
    cdef LaneRequests requests  # of the rescoring; None: lanes send no requests to the host
    cdef AnswerEngine answers  # whose threads number lattices
    cdef Searches searches
    cdef Window window
    cdef DeviceInputChecks device_input_checks
    cdef DeviceLogSoftmax log_softmax  # None until a batch on the device has logits
    cdef object all_streams  # that are alive
    cdef SpareRooms spares
    cdef object room
    cdef object tokens  # average tokens of a frame in the last batch; None: not known
    cdef bint lean  # one lane did not have room: the next attempt takes the least memory

    def __init__(self, graph, int ordinal, options, AnswerEngine answers, *, size_t threads, size_t lookup_threads,
                 rescoring=None):
        cdef size_t memory_limit = options.memory_limit or 0, taken
        self.open(ordinal)
        self.answers = answers
        self.all_streams, self.spares = weakref.WeakSet(), SpareRooms()
        self.graph = device_graph(graph, self.context)
        if memory_limit and self.graph.bytes > memory_limit:
            raise CapacityError(f"memory_limit: the graph alone needs {self.graph.bytes:,} bytes on cuda:{ordinal}, "
                                f"but {memory_limit:,} are allowed; use a larger memory_limit")
        taken = self.graph.bytes
        if rescoring is not None:
            self.rescoring = DeviceRescoring(graph, rescoring, self.context, self.stream, options, taken=taken,
                                             lookup_threads=lookup_threads)
            taken += self.rescoring.device_bytes()
        self.pool = MemoryPool(self.context, memory_limit, taken)
        model = None
        if self.rescoring is not None:
            self.requests = self.rescoring.open_requests(self.pool, self.stream)
            if self.requests is not None:
                model = kernels.WORDS_REQUESTED if self.rescoring.large is None else kernels.ARCS_REQUESTED
            else:
                model = kernels.RESIDENT if self.rescoring.bucketed_bytes() == 0 else kernels.BUCKETED
        self.searches = Searches(self.pool, self.stream, model)
        self.window = Window(self.graph, options, self.pool, self.stream, self.copies, self.rescoring, self.requests,
                             answers, threads)
        self.device_input_checks = DeviceInputChecks(self.stream)
        self.room = search_plan.first_room(options.max_active or 0)

    def decode(self, utterances, uint32_t columns, bint on_host, InputChecks checks=None,
               lattice_beam=None, boosts=None, streams=None, last=None, logits=None, starts=None, answers=None):
        """Decodes a batch: fields of Paths, counters, bad values: (utterance, frame, column, value)."""
        # `utterances`: int64[batch, 4], address, row stride in values, frames, is float16; the memory must stay. Device
        # arrays must be ordered before the engine's stream. With `streams`, utterances are their next chunks: paths
        # start after the settled part, lattices are those of streams that keep links and have ended now or show theirs,
        # and a batch that fails leaves all streams as before. The paths of utterances with bad values are empty. `logits`:
        # bool[batch], those on the device that are logits. `starts`: the state in which each search begins, see
        # `start_states`. `answers`: an AnswerRequest for the lattices, which are answered while others are decoded.
        lock = of_threads = self.decoding_lock()
        options = BatchOptions(len(utterances), lattice_beam, boosts, streams, last, answers, self.requests is not None)
        plain = lattice_beam is None and options.boosts is None and streams is None and self.rescoring is None
        options.starts = start_states(starts, len(utterances), self.graph.source.num_states, plain)
        if options.boosts is not None and self.rescoring is not None:
            self.rescoring.check_boosts(options.boosts)
        if lattice_beam is not None:
            of_threads = self.answers.decoding_lock()
        with lock, of_threads:
            if lattice_beam is not None:
                self.answers.ready()
            try:
                return self.decode_with_retry((utterances, columns, on_host, checks, options, logits))
            finally:
                self.window.end_batch()

    def new_stream(self, boost=None, rules=None, lm_context=None, saved=None, lattice_beam=None):
        """A CudaStream, new or from `saved`; with a `lattice_beam` it keeps links. UnsupportedError for some boosts."""
        if boost is not None and self.rescoring is not None:
            self.rescoring.check_boosts([boost])
        stream = CudaStream(self.pool, self.stream, self.graph.source, self.rescoring, self.spares, boost, rules,
                            lm_context, saved, lattice_beam)
        self.all_streams.add(stream)
        return stream

    cdef object attempt(self, tuple batch):
        found = self._decode(batch[0], batch[1], batch[2], batch[3], batch[4], batch[5])
        self.lean = False
        return found

    cdef bint shrink(self, error) except -1:
        """Half the lanes, and after one lane `lean`."""
        if isinstance(error, TooManyTokens) or not isinstance(error, (CudaOutOfMemoryError, CapacityError)):
            return False
        if self.lean:
            self.halvings, self.lean = 0, False
            return False
        if self.window.num_lanes > 1:
            self.halvings += 1
        else:
            self.lean = True
        return True

    cdef _decode(self, table, uint32_t columns, bint on_host, InputChecks checks, BatchOptions options, logits):
        cdef const int64_t[:, ::1] utterances = table
        cdef Paths found = Paths(utterances.shape[0])
        cdef Lattices lattices = Lattices()
        cdef const int64_t[:, ::1] checked = utterances
        cdef size_t with_links = options.with_links(utterances.shape[0])
        order = options.order(utterances)
        if options.lattice_beam >= 0:
            lattices.found.resize(utterances.shape[0])
            self.answers.begin(options.answers, utterances.shape[0])
        if order is None:
            order = np.arange(utterances.shape[0])
        else:
            table, logits = table[order], None if logits is None else logits[order]
        if logits is not None:
            self.log_softmax = self.log_softmax or DeviceLogSoftmax(self.pool, self.stream)
        room = search_plan.LEAN if self.lean else self.room
        self.window.num_lanes = max(1, <uint32_t> len(table) >> self.halvings)  # until it has been planned
        if checks is not None and on_host:
            checks.at(utterances)
            checks = None
        self.window.prepare(options, room, columns, on_host)
        search = self.searches.of(options.boosts is not None, options.opens)
        try:
            for first, last in self._windows(table, columns, on_host, logits, room, with_links):
                beam = options.lattice_beam if first < with_links else -1.0
                members, part = order[first:last], table[first:last]
                self.window.plan(search, last - first, beam, self.tokens, self.halvings, self.lean)
                if logits is not None:
                    part = self.log_softmax.log_probs(part, logits[first:last], columns)
                    checked = _at(members, part, utterances.shape[0])
                self.window.start(part, members, lattices)
                if checks is not None:
                    self.device_input_checks.fetch(checks, checked, options.streams is not None)
                self.window.finish()
                if checks is not None:
                    self.device_input_checks.check(checks)
                found.add(members, self.window.batch.results(), self.window.batch.paths())
            self.window.lattices.finish()
        except BaseException:
            self.window.cancel()
            raise
        if options.streams is not None:
            self._take_states(found, utterances, options)
        work = found.work()
        if work["frames"]:
            self.tokens = work["tokens"] / work["frames"]
        if self.rescoring is not None:
            work |= self.rescoring.work()
        paths = found.paths
        if options.lattice_beam >= 0:
            paths = (*paths, lattices, None if options.answers is None else self._answers())
        return paths, work, sorted(found.bad)

    cdef object _answers(self):
        """LatticeAnswers, or the MemoryError for which there are none."""
        try:
            return self.answers.taken()
        except MemoryError as error:
            return error

    def _windows(self, table, uint32_t columns, bint on_host, logits, room, size_t with_links):
        """What is decoded together, as ``[first, last)``: lattices are made of the first utterances alone."""
        parts = [(begin, end) for begin, end in ((0, with_links), (with_links, len(table))) if begin < end]
        if on_host:  # the bytes that a batch takes on the device besides its lanes
            bytes_of = table[:, 2] * columns * np.where(table[:, 3] != 0, 2, 4)
        elif logits is not None:
            bytes_of = np.where(logits, table[:, 2] * columns * 4, 0)
        else:
            return parts
        windows = []
        half_of_the_room = (self.pool.room() + self._log_prob_bytes()) // 2
        most = max(1, min(room.window_bytes >> self.halvings, half_of_the_room))
        for begin, end in parts:
            cuts = search_plan.windows_of(bytes_of[begin:end], most)
            windows += [(begin + first, begin + last) for first, last in cuts]
        return windows

    cdef int _take_states(self, Paths found, const int64_t[:, ::1] utterances, BatchOptions options) except -1:
        """The batch has succeeded: all streams but those with refused chunks take over their next states."""
        cdef Py_ssize_t i
        cdef uint64_t frames
        cdef uint32_t rule
        cdef CudaStream stream
        cdef dict ended = {utterance: (taken, fired) for utterance, taken, fired in found.ended}
        cdef set refused = {one[0] for one in found.bad}
        for i in range(utterances.shape[0]):
            fetch_ahead(options.states, i)
            if refused and i in refused:
                continue
            frames, rule = <uint64_t> utterances[i, 2], 0
            if ended and i in ended:
                frames, rule = ended[i]
            stream = <CudaStream> options.states[i]
            stream.take(found, found.settled.data() + found.settled_begins[i], found.settled_counts[i], frames,
                        found.lived[i], rule, options.last[i])
        return 0

    cdef int give_back(self) except -1:
        self.searches.clear()
        return BatchEngine.give_back(self)

    cdef int free(self) except -1:
        self.spares.clear()
        if self.log_softmax is not None:
            self.log_softmax.clear()
        return self.window.clear()

    cdef int free_pinned(self) except -1:
        self.lean = False
        self.window.release()
        self.device_input_checks.release()
        if self.log_softmax is not None:
            self.log_softmax.release()
        return 0

    cdef size_t _log_prob_bytes(self):
        """Bytes of the device for log-probs that do not lie there when a batch comes."""
        cdef size_t made = 0 if self.log_softmax is None else self.log_softmax.device_bytes()
        return self.window.staging.device_bytes() + made

    def memory(self):
        """dict : bytes on the device by purpose, and ``pinned`` bytes of the host."""
        cdef Window window = self.window
        cdef size_t models = 0, bucketed = 0, boosts = 0, host
        with self.decoding_lock():
            host = window.pinned_bytes() + self.device_input_checks.pinned_bytes()
            if self.log_softmax is not None:
                host += self.log_softmax.pinned_bytes()
            if self.rescoring is not None:
                models = self.rescoring.device_bytes()
                host += self.rescoring.pinned_bytes()
                bucketed = self.rescoring.bucketed_bytes()
            if window.boosting is not None:
                boosts = window.boosting.device_bytes()
            return {"graph": self.graph.bytes + window.graph_columns.capacity, "language_models": models,
                    "lanes": self.searches.room_bytes(), "token_log": self.searches.log_bytes(), "boosts": boosts,
                    "paths": window.batch.path_bytes(), "log_probs": self._log_prob_bytes(),
                    "batch": window.batch.other_bytes() + window.lattices.device_bytes() + self.spares.nbytes,
                    "pinned": host, "bucketed": bucketed, "streams": sum([stream.nbytes for stream in self.all_streams])}

    @property
    def placement(self):
        """str : where the large language model lives; None without one."""
        return None if self.rescoring is None else self.rescoring.placement.name

    @property
    def host_lookups(self):
        """arcbeam.ctc.gpu.models._requests.HostLookups : the threads that answer lanes, for measurements, or None."""
        return None if self.requests is None else self.requests.lookups


cdef object _at(members, part, size_t utterances):
    """The table of a batch in which only these members have frames."""
    whole = np.zeros((utterances, part.shape[1]), np.int64)
    whole[members] = part
    return whole
