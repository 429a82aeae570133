"""Launches the search kernel on a device: its entries, and how many lanes fit in each shape."""

from libc.stdint cimport uint32_t, uint64_t

from arcbeam.gpu._cuda cimport Context
from arcbeam.gpu._launch cimport Function, Stream, launch
from arcbeam.gpu._launch cimport load as load_module
from arcbeam.gpu._driver_table cimport LaunchShape
from arcbeam.ctc.gpu.searches._search cimport SearchKind
from arcbeam.ctc.gpu.searches._search_view cimport SearchParams

from arcbeam.gpu.tuned import search_plan


cdef class Launches:
    """Uses the shapes of :mod:`arcbeam.gpu.tuned.search_plan`; their needs depend on the columns of the log-probs."""

    def __cinit__(self, Context context not None, SearchKind kind not None):
        self.context, self.kind = context, kind
        self.fits = {}
        kernel = kind.kernel
        module = load_module(context, kernel.name)
        self.entries = {name: module.function(f"arcbeam_{kernel.name}_{name}") for name in kernel.entries}
        with context:
            for entry in self.entries.values():
                (<Function> entry).allow_shared(context.state.shared_per_block)

    cdef object choose(self, uint32_t utterances, uint32_t columns, room, tokens):
        """The first shape of the plan that fits."""
        for shape in search_plan.launch_shapes(utterances, self.context.state.multiprocessors, tokens):
            if self.lanes_of(shape, columns, room):
                return shape
        raise ValueError(f"log_probs: expected at most {self._most_columns()} columns, which is what the shared "
                         f"memory of cuda:{self.context.state.ordinal} has room for, got {columns}; decode on the CPU")

    cdef int take(self, shape, uint32_t columns, room, uint32_t lanes, SearchParams* params) except -1:
        """Sets this shape for all later launches."""
        cdef uint32_t capacity = self.fits[shape, columns, room.shared_states][0]
        self.entry = self.entries[shape.kernel]
        params.shared_capacity, params.shared_candidates = capacity, 2 * capacity
        params.shared_table_size = 2 * capacity
        params.team_tokens = search_plan.RESCORING_TEAM_TOKENS if self.kind.rescores else search_plan.TEAM_TOKENS
        params.hot_tokens = search_plan.hot_tokens(lanes, self.context.state.multiprocessors)
        params.hot_frames = search_plan.HOT_FRAMES
        params.small_frame = search_plan.SMALL_FRAME
        params.hot_lanes = 0
        hot_lanes = search_plan.HOT_LANES
        if self.kind.rescores:
            params.hot_tokens, hot_lanes = search_plan.RESCORING_HOT_TOKENS, search_plan.RESCORING_HOT_LANES
            params.hot_frames = 0
        if shape.cluster == 1:
            params.hot_lanes = min(hot_lanes, self.lanes_of(self.cluster(), columns, room))
        self.shape.blocks, self.shape.cluster = lanes * shape.cluster, shape.cluster
        self.shape.threads = shape.threads
        self.shape.shared_bytes = <uint32_t> self.kind.shared_bytes(shape.threads, columns, capacity)
        return 0

    cdef object cluster(self):
        """The shape for the last few utterances if they are hot."""
        return search_plan.RESCORING_CLUSTER if self.kind.rescores else search_plan.CLUSTER

    cdef int start(self, SearchParams* params, Stream stream) except -1:
        launch(self.entry, &self.shape, params, stream)
        return 0

    cdef uint32_t lanes_of(self, shape, uint32_t columns, room) except? 0xffffffff:
        """Lanes that the device holds at once in this shape; 0 if a block lacks room, or the device has no clusters."""
        key = (shape, columns, room.shared_states)
        if key not in self.fits:
            self.fits[key] = self._fit(shape, columns, room.shared_states)
        return self.fits[key][1]

    cdef tuple _fit(self, shape, uint32_t columns, shared_states):
        """(states of a frame in shared memory, lanes at once)."""
        cdef uint32_t step = shared_states or search_plan.SHARED_STEP
        cdef uint32_t capacity = 0
        of_all = search_plan.shared_bytes(self.kind.rescores, self.kind.kernel.has_model)
        cdef uint64_t most = self._shared_bytes_of(shape, of_all)
        cdef LaunchShape one
        cdef Function entry
        if shape.kernel not in self.entries:
            return 0, 0
        entry = <Function> self.entries[shape.kernel]
        if shape.cluster > 1 and not entry.has_clusters():
            return 0, 0
        if self.kind.shared_bytes(shape.threads, columns, step) > most:  # too many columns for this step
            most = self._shared_bytes_of(shape, self.context.state.shared_per_multiprocessor)
        while self.kind.shared_bytes(shape.threads, columns, capacity + step) <= most:
            capacity += step
            if shared_states:
                break
        if capacity == 0:
            return 0, 0
        bytes = self.kind.shared_bytes(shape.threads, columns, capacity)
        if shape.cluster == 1:
            return capacity, entry.blocks_per_multiprocessor(shape.threads, bytes) * self.context.state.multiprocessors
        one.blocks = one.cluster = shape.cluster
        one.threads, one.shared_bytes = shape.threads, bytes
        return capacity, entry.clusters_on_device(&one)

    cdef uint64_t _shared_bytes_of(self, shape, uint64_t of_multiprocessor):
        """The most shared memory that a block gets when so many blocks share so much of a multiprocessor's."""
        of_multiprocessor = min(of_multiprocessor, self.context.state.shared_per_multiprocessor)
        each = of_multiprocessor // shape.blocks_per_multiprocessor
        return max(0, min(self.context.state.shared_per_block, each - search_plan.RESERVED_SHARED_BYTES))

    cdef uint32_t _most_columns(self):
        cdef uint32_t step = search_plan.SHARED_STEP
        cdef uint64_t most = self._shared_bytes_of(search_plan.WIDE, self.context.state.shared_per_multiprocessor)
        cdef uint64_t fixed = self.kind.shared_bytes(search_plan.WIDE.threads, 0, step)
        return <uint32_t> ((most - fixed) // 16 * 4) if most > fixed else 0

