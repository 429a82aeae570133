"""Language models as kernels read them, and everything else that rescoring needs on a device."""

import threading
import weakref

import numpy as np

cimport cython
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy, memset

from arcbeam.gpu._cuda cimport Context
from arcbeam.gpu._launch cimport Stream
from arcbeam.gpu._memory cimport DeviceBuffer, MemoryPool, copy_to_host, set_bytes
from arcbeam.gpu._host_buffers cimport HostBuffer, SharedBuffer
from arcbeam.lm._lm_buckets cimport BucketSizes, fill, sizes_of
from arcbeam.lm._kenlm_view cimport kenlm_view_of
from arcbeam.lm._lm_view cimport LmArc, LmView, lm_view_of
from arcbeam.gpu._registered_memory cimport RegisteredMemory
from arcbeam.ctc.boost._boost cimport BoostList
from arcbeam.ctc.gpu.searches._rescoring_view cimport LookupCounters, RescoringParams, kMostHistories, shared_bits

from arcbeam.gpu.tuned import search_plan
from arcbeam.lm import lm_file
from arcbeam.gpu.tuned import lm_placement
from arcbeam.gpu._host_buffers import UNPINNED
from arcbeam.lm._lm_buckets import FULLNESS, filling_threads
from arcbeam.gpu._registered_memory import parts_of
from arcbeam.core.errors import CapacityError, CudaOutOfMemoryError, UnsupportedError
from arcbeam.core.warn import warn

_lock = threading.Lock()
_models = weakref.WeakValueDictionary()
_words = weakref.WeakValueDictionary()
_registered = weakref.WeakValueDictionary()

# The columns of a model that kernels read, in the order in which they are in its memory.
COLUMNS = ("labels.low", "labels.high", "first.offsets", "first.bases", "first.wide", "backoff.steps", "backoff.bases",
           "backoff.wide", "arcs", "backoff.weights")
ARCS = tuple(name for name in COLUMNS if name not in lm_file.INDEX)
BUCKETS = ("buckets",)  # replaces all columns, see _lm_buckets
cdef enum:
    GRAIN = 256  # each column begins at a multiple of this many bytes


cdef bytes_of(column):
    """A column as bytes, without a copy where it is contiguous."""
    return np.ascontiguousarray(column).reshape(-1).view(np.uint8)


@cython.no_gc
cdef class DeviceModel:
    """A language model for kernels: columns `on_host` stay in host memory (BUCKETS: as buckets), `absent` unread."""

    def __cinit__(self, model, Context context not None, tuple on_host not None, tuple absent not None):
        cdef const uint8_t[::1] data
        cdef size_t place, count
        cdef unsigned char* to
        self.context = context
        self.source = model  # keeps it alive, so that no other model gets the same identity
        self.far = SharedBuffer(context, search_plan.PINNED_MODEL_BYTES)
        if on_host == BUCKETS:
            self._fill_buckets()
            return
        parts = {name: bytes_of(model.columns[name]) for name in COLUMNS if name not in absent}
        places, sizes = {}, [0, 0]
        for name, part in parts.items():
            places[name] = sizes[name in on_host]
            sizes[name in on_host] += (len(part) + GRAIN - 1) // GRAIN * GRAIN
        if on_host:
            self.far.resize(sizes[1])
            self.pinned_bytes = self.far.capacity
        if sizes[0]:
            self.pool = MemoryPool(context)
            self.memory = DeviceBuffer(self.pool, Stream(context), "the language model")
            self.memory.resize(sizes[0])
            self.device_bytes = self.pool.used_bytes
        at = dict.fromkeys(COLUMNS, 0)
        for name, part in parts.items():
            place = places[name]
            if name in on_host:
                at[name] = <uintptr_t> self.far.data + place
                data = part
                count = data.shape[0]
                if count:
                    to = <unsigned char*> self.far.data + place
                    with nogil:
                        memcpy(to, &data[0], count)
            else:
                at[name] = self.memory.address + place
                data = part
                for begin, end in parts_of(<uintptr_t> &data[0] if data.shape[0] else 0, data.shape[0]):
                    self.memory.write(part[begin:end], place + begin)
        self.view = lm_view_of(model.columns, model.about)  # for its sizes
        self.view.labels_low = <const uint16_t*> <uintptr_t> at["labels.low"]
        self.view.labels_high = <const uint32_t*> <uintptr_t> at["labels.high"]
        self.view.first_offsets = <const uint8_t*> <uintptr_t> at["first.offsets"]
        self.view.first_bases = <const uint32_t*> <uintptr_t> at["first.bases"]
        self.view.wide_firsts = <const uint32_t*> <uintptr_t> at["first.wide"]
        self.view.backoff_steps = <const uint64_t*> <uintptr_t> at["backoff.steps"]
        self.view.backoff_bases = <const uint32_t*> <uintptr_t> at["backoff.bases"]
        self.view.wide_backoffs = <const uint32_t*> <uintptr_t> at["backoff.wide"]
        self.view.arcs = <const LmArc*> <uintptr_t> at["arcs"]
        self.view.backoff_weights = <const float*> <uintptr_t> at["backoff.weights"]


    cdef int _fill_buckets(self) except -1:
        """Writes the buckets to the host's memory with all threads; a billion n-grams take a minute."""
        cdef LmView lm = lm_view_of(self.source.columns, self.source.about)
        cdef unsigned threads = filling_threads()
        cdef BucketSizes sizes = sizes_of(lm, FULLNESS, threads)
        self.far.resize(sizes.bytes)
        self.pinned_bytes = self.bucketed_bytes = self.far.capacity
        fill(lm, sizes, <unsigned char*> self.far.data, threads, &self.buckets)
        self.source.check_file()  # parts that were lost while it was read are missing from the buckets
        memset(&self.view, 0, sizeof(self.view))
        self.view.start, self.view.num_labels, self.view.num_states = lm.start, lm.num_labels, lm.num_states
        return 0


cdef DeviceModel device_model(model, Context context, tuple on_host, tuple absent=()):
    """The model as kernels of a device read it. It is sent once and freed with its last decoder."""
    key = (id(model), <uintptr_t> <void*> context, on_host, absent)
    with _lock:
        found = _models.get(key)
        if found is None:
            found = _models[key] = DeviceModel(model, context, on_host, absent)
    return found


cdef RegisteredMemory registered_arcs(model, Context context):
    """The arcs that threads of the host read, pinned in place: once for all devices, until the last decoder goes."""
    with _lock:
        found = _registered.get(id(model))
        if found is None:
            columns = [model.columns[name] for name in ARCS]
            found = _registered[id(model)] = RegisteredMemory(context, model, columns, model.is_mapped)
    return found


@cython.no_gc
cdef class DeviceWords:
    """The output labels of a graph, on a device."""

    def __cinit__(self, graph, Context context not None):
        self.context = context
        self.source = graph
        self.pool = MemoryPool(context)
        self.memory = DeviceBuffer(self.pool, Stream(context), "the words of the graph")
        self.memory.write(bytes_of(graph.words))
        self.bytes = self.pool.used_bytes
        self.of_epsilons = bool((graph.words[graph.columns == 0xffff] != 0).any())


cdef DeviceWords device_words(graph, Context context):
    key = (id(graph), <uintptr_t> <void*> context)
    with _lock:
        found = _words.get(key)
        if found is None:
            found = _words[key] = DeviceWords(graph, context)
    return found


def most_beginnings(uint64_t large_states, uint64_t small_states):
    """int : beginnings of phrases that a history has room for besides the states of both models."""
    return <uint64_t> 1 << shared_bits(large_states, small_states).boost


cdef class DeviceRescoring:
    """Both models, the graph's words, the arc cache and the counters of a decoder that has `taken` bytes already."""

    def __cinit__(self, graph, rescoring, Context context not None, Stream stream not None, options, *, size_t taken,
                  size_t lookup_threads):
        cdef size_t free_bytes = 0, total_bytes = 0, memory_limit = options.memory_limit or 0
        placement, gpu_budget, arc_cache = options.placement, options.gpu_budget, options.arc_cache
        self.rescoring, self.host_view = rescoring, kenlm_view_of(rescoring)
        self.hypotheses_per_state = options.hypotheses_per_state or 0
        self.lookup_threads = lookup_threads
        with context:
            context.memory_info(&free_bytes, &total_bytes)
        # Memory that this model has taken already counts as free for it.
        for where in (((), ()), (ARCS, ()), ((), ARCS)):
            with _lock:
                there = _models.get((id(rescoring.large), <uintptr_t> <void*> context, *where))
            if there is not None:
                free_bytes += (<DeviceModel> there).device_bytes
        if memory_limit:
            free_bytes = min(free_bytes, memory_limit - min(memory_limit, taken))
        model_bytes, index_bytes = rescoring.large.nbytes if rescoring.kenlm is not None else 0, 0
        if rescoring.kenlm is None:
            model_bytes = sum(rescoring.large.columns[name].nbytes for name in COLUMNS)
            index_bytes = sum(rescoring.large.columns[name].nbytes for name in lm_file.INDEX)
        elif placement == "auto":
            placement = "cpu"
        self.placement = lm_placement.choose(placement, model_bytes, index_bytes, free_bytes, gpu_budget, arc_cache)
        self.small = device_model(rescoring.small, context, ())
        self.words = device_words(graph, context)
        taken += self.small.device_bytes + self.words.bytes
        if self.placement.name == "resident":
            self._check_limit(memory_limit, taken + model_bytes)
        self._place_large(context, model_bytes, index_bytes, free_bytes, gpu_budget, arc_cache)
        self.bits = shared_bits(self._large_states(), self.small.view.num_states)
        self.pool = MemoryPool(context)
        self.large_labels = self._send(rescoring.large_labels, stream)
        self.small_labels = self._send(rescoring.small_labels, stream)
        self.counters = self._send(np.zeros(sizeof(LookupCounters), np.uint8), stream)
        self.cache = DeviceBuffer(self.pool, stream, "the arc cache")
        if self.placement.cache_entries:
            self.cache.resize(self.placement.cache_bytes)
            self.cache.fill(0)
        self.counted = HostBuffer(context)
        self.counted.resize(sizeof(LookupCounters))
        memset(self.counted.data, 0, sizeof(LookupCounters))
        self._check_limit(memory_limit, taken + self._large_bytes() + self.pool.used_bytes)

    cdef int _check_limit(self, size_t memory_limit, size_t needed) except -1:
        if memory_limit and needed > memory_limit:
            raise CapacityError(f"memory_limit: the graph and the language models need {needed:,} bytes of the GPU, "
                                f"but {memory_limit:,} are allowed; use a larger memory_limit, placement='host-direct' or "
                                "a smaller arc_cache")
        return 0

    cdef int _place_large(self, Context context, size_t model_bytes, size_t index_bytes, size_t free_bytes, gpu_budget,
                          arc_cache) except -1:
        cdef str name = self.placement.name
        if name == "cpu":
            return 0
        absent = on_host = ()
        if name == "host":
            absent = ARCS
        elif name == "host-direct":
            on_host = ARCS if self.placement.index_on_device else BUCKETS
        try:
            self.large = device_model(self.rescoring.large, context, on_host, absent)
        except CudaOutOfMemoryError as error:
            if "pinned" in error.action:
                return self._place_unpinned(context, model_bytes, index_bytes, free_bytes, gpu_budget, arc_cache, error)
            if name == "resident":
                raise CudaOutOfMemoryError(
                    f"{error}. This happened with placement='resident'; 'host-direct' keeps the language model "
                    f"({model_bytes:,} bytes) in host memory", name=error.name, code=error.code, action=error.action,
                ) from None
            raise
        if name == "host":
            self._pin_arcs(context, False)
        return 0

    cdef int _pin_arcs(self, Context context, bint warned) except -1:
        """Pins the arcs that threads of the host read, for "host". `warned`: of the refusal."""
        self.arcs = registered_arcs(self.rescoring.large, context)
        if self.arcs.warn_due() and not warned:
            context.state.warned_unpinned = 1
            bytes = sum(self.rescoring.large.columns[name].nbytes for name in ARCS)
            warn(f"placement: the host does not pin the arcs of the language model ({bytes:,} bytes; "
                 f"{self.arcs.refused}), so they are read where they are, which takes longer if they are not in "
                 f"memory yet; {UNPINNED}")
        return 0

    cdef int _place_unpinned(self, Context context, size_t model_bytes, size_t index_bytes, size_t free_bytes, gpu_budget,
                             arc_cache, error) except -1:
        """If pinned memory is refused, puts the model or only its index into the device's memory."""
        self.placement = lm_placement.choose_unpinned(model_bytes, index_bytes, free_bytes, gpu_budget, arc_cache)
        if self.placement is None:
            budget = lm_placement.budget_of(free_bytes, gpu_budget)
            raise CudaOutOfMemoryError(
                f"{error}: placement='host-direct' keeps the language model ({model_bytes:,} bytes) in pinned memory of the "
                f"host, and cuda:{context.state.ordinal} has no room for its index ({index_bytes:,} bytes) either: "
                f"{budget:,} bytes may be taken; decode on the CPU", name=error.name, code=error.code, action=error.action,
            ) from None
        is_resident = self.placement.name == "resident"
        warn(f"placement: the host does not pin enough memory for the language model ({model_bytes:,} bytes), so "
             + ("it is kept on the GPU, as 'resident'" if is_resident else
                "the GPU keeps its index and requests the rest from the host, as 'host'") + f"; {UNPINNED}")
        context.state.warned_unpinned = 1
        self.large = device_model(self.rescoring.large, context, (), () if is_resident else ARCS)
        if not is_resident:
            self._pin_arcs(context, True)
        return 0

    cdef DeviceBuffer _send(self, column, Stream stream):
        buffer = DeviceBuffer(self.pool, stream, "the data for rescoring")
        buffer.write(bytes_of(column))
        return buffer

    cdef int describe(self, RescoringParams* params) except -1:
        """Tells the kernel everything except the parameters of the search itself, whose beam has been set."""
        params.lms.small = self.small.view
        if self.large is not None:
            params.lms.large, params.buckets = self.large.view, self.large.buckets
        else:  # the beginning of a sentence has the number 0
            params.lms.large.num_labels = self.rescoring.kenlm.end_sentence
        params.bits = self.bits
        params.lms.large_labels = <const uint32_t*> <uintptr_t> self.large_labels.address
        params.lms.small_labels = <const uint32_t*> <uintptr_t> self.small_labels.address
        params.lms.large_scale, params.lms.small_scale = self.rescoring.large_scale, self.rescoring.small_scale
        params.words = <const uint32_t*> <uintptr_t> self.words.memory.address
        params.counters = <LookupCounters*> <uintptr_t> self.counters.address
        params.cache.entries = <uint64_t*> <uintptr_t> self.cache.address
        params.cache.size = self.placement.cache_entries
        params.hypotheses_per_state = self.hypotheses_per_state
        params.epsilon_words = self.words.of_epsilons
        params.index_is_near = self.placement.name == "host-direct" and self.placement.index_on_device
        return 0

    cdef int check_boosts(self, list lists) except -1:
        """Raises UnsupportedError for lists that no kernel takes with these models."""
        cdef BoostList boost
        cdef size_t most = most_beginnings(self._large_states(), self.small.view.num_states)
        for at, boost in enumerate(lists):
            if boost is not None and len(boost.states) > most:
                where = f" in the list of utterance {at}" if len(lists) > 1 else ""
                raise UnsupportedError(
                    f"boost: on a GPU expected phrases with at most {most:,} different beginnings, which is what a token "
                    f"has room for beside histories of {self._large_states():,} and "
                    f"{self.small.view.num_states:,} states, got {len(boost.states):,}{where}; use fewer phrases, or "
                    "decode with device='cpu'")
        return 0

    cdef uint64_t _large_states(self) noexcept:
        """How many states the large model may have; those of a KenLM are numbered as they are met."""
        return kMostHistories if self.large is None else self.large.view.num_states

    cdef LaneRequests open_requests(self, MemoryPool pool, Stream stream):
        """The requests of lanes to the host, with tables in the engine's pool; None if lanes send none."""
        if self.placement.name in ("host", "cpu"):
            self.requests = LaneRequests(pool, stream, self.rescoring, self.lookup_threads)
        return self.requests

    cdef int begin_batch(self, Stream stream) except -1:
        """Resets the counters, except the stamps of the cache, which continue."""
        memset(self.counted.data, 0, sizeof(LookupCounters))
        if self.requests is not None:
            self.requests_before = self.requests.rounds, self.requests.bytes, self.requests.answer_batches
            if self.requests.begin_batch() and self.cache.capacity:
                set_bytes(self.cache.address, 0, self.cache.capacity, stream)
        return set_bytes(self.counters.address, 0, 6 * sizeof(uint64_t), stream)

    cdef int begin(self, uint32_t lanes, RescoringParams* params) except -1:
        """Call this before the first launch of a window."""
        return 0 if self.requests is None else self.requests.begin(lanes, params)

    cdef int copy_back(self, Stream stream) except -1 nogil:
        return copy_to_host(self.counted.data, self.counters.address, sizeof(LookupCounters), stream)

    def work(self):
        """dict : counters of the last batch."""
        cdef LookupCounters* counted = <LookupCounters*> self.counted.data
        reads, rounds, copies, waiting = 32 * counted.reads, None, None, None
        if self.requests is not None:
            reads = self.requests.bytes - self.requests_before[1]
            rounds = self.requests.rounds - self.requests_before[0]
            copies = None if self.requests_before[2] is None else self.requests.answer_batches - self.requests_before[2]
            waiting = counted.waited / max(1, counted.worked)
        return {"lookups": counted.lookups, "distinct_lookups": counted.distinct, "lookup_misses": counted.misses,
                "model_bytes_read": reads, "lookup_rounds": rounds, "lookup_copies": copies,
                "lookup_waiting": waiting}

    cdef size_t device_bytes(self):
        """Bytes on the device; models and words are shared by decoders."""
        cdef size_t bytes = self._large_bytes() + self.small.device_bytes + self.words.bytes + self.pool.used_bytes
        return bytes + (0 if self.requests is None else self.requests.device_bytes())

    cdef size_t pinned_bytes(self):
        cdef size_t bytes = self.counted.pinned_bytes()
        if self.arcs is not None:
            bytes += self.arcs.bytes
        if self.large is not None:
            bytes += self.large.pinned_bytes
        return bytes + (0 if self.requests is None else self.requests.pinned_bytes())

    cdef size_t bucketed_bytes(self):
        return 0 if self.large is None else self.large.bucketed_bytes

    def _large_bytes(self):
        return 0 if self.large is None else self.large.device_bytes
