"""Log-probs of logits that lie on a device, by the kernel of ``cuda/arrays/log_softmax.cu``."""

import numpy as np

from libc.stdint cimport uintptr_t
from libc.string cimport memcpy

from arcbeam.gpu._driver_table cimport LaunchShape
from arcbeam.gpu._launch cimport launch
from arcbeam.gpu._launch cimport load as load_module
from arcbeam.gpu._memory cimport copy_to_device

from arcbeam.gpu.tuned import search_plan


cdef class DeviceLogSoftmax:
    """Makes them before a launch of the search, on the kernel's stream, in memory that grows and never shrinks."""

    def __cinit__(self, MemoryPool pool not None, Stream stream not None):
        self.stream = stream
        self.kernel = load_module(pool.context, "log_softmax").function("arcbeam_log_softmax")
        self.views = DeviceBuffer(pool, stream, "the table of logits")
        self.rows = DeviceBuffer(pool, stream, "log-probs of logits")
        self.sent = HostBuffer(stream.context)

    cdef object log_probs(self, utterances, are_logits, uint32_t columns):
        """The table of utterances with their log-probs in place of logits, until the next call."""
        # The search that reads them must have ended before that call: the views on the host have been copied then.
        cdef LogSoftmaxParams params
        cdef LaunchShape shape
        cdef const int64_t[:, ::1] views
        table = np.array(utterances)
        places = np.flatnonzero(are_logits & (table[:, 2] > 0))
        frames = table[places, 2]
        first = np.cumsum(frames) - frames
        params.rows, params.num_utterances, params.columns = frames.sum(), len(places), columns
        if params.rows == 0 or columns == 0:
            return table
        views = np.ascontiguousarray(np.column_stack((table[places][:, [0, 1, 3]], first)))
        self.rows.reserve(sizeof(float) * params.rows * columns, False)
        self.views.reserve(params.num_utterances * sizeof(LogitsView), False)
        self.sent.reserve(params.num_utterances * sizeof(LogitsView))
        memcpy(self.sent.data, &views[0, 0], params.num_utterances * sizeof(LogitsView))
        copy_to_device(self.views.address, self.sent.data, params.num_utterances * sizeof(LogitsView), self.stream)
        params.utterances = <const LogitsView*> <uintptr_t> self.views.address
        params.log_probs = <float*> <uintptr_t> self.rows.address
        shape.threads, shape.cluster, shape.shared_bytes, shape.cooperative = search_plan.LOG_SOFTMAX_THREADS, 1, 0, 0
        shape.blocks = search_plan.log_softmax_blocks(params.rows, self.stream.context.state.multiprocessors)
        launch(self.kernel, &shape, &params, self.stream)
        table[places, 0] = self.rows.address + sizeof(float) * columns * first
        table[places, 1], table[places, 3] = columns, 0
        return table

    cdef int clear(self) except -1:
        """Gives the device's memory back."""
        self.views.clear()
        self.rows.clear()
        return 0

    cdef int release(self) except -1:
        """Gives the host's memory back."""
        self.sent = HostBuffer(self.stream.context)
        return 0

    cdef size_t device_bytes(self) noexcept:
        return self.views.capacity + self.rows.capacity

    cdef size_t pinned_bytes(self):
        return self.sent.pinned_bytes()
