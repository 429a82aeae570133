"""The emulator as a machine that runs kernels of single stages."""

import ctypes

import numpy as np

from tests.simt.build import load
from tests.stages import stage_kernel


class Emulated:
    """A machine whose memory is the host's; launches under a schedule."""

    def __init__(self, source=stage_kernel.SOURCE, kernel=stage_kernel.KERNEL, flags=(), **schedule):
        self.kernels, self.kernel, self.schedule, self.arrays = load(source, flags=flags), kernel, schedule, {}

    def put(self, name, array):
        self.arrays[name] = np.frombuffer(bytearray(array.tobytes() or bytes(1)), np.uint8)
        return self.arrays[name].ctypes.data

    put_on_host = put

    def get(self, name, dtype):
        return self.arrays[name].view(dtype)

    def launch(self, parameter, threads, shared_bytes):
        params = (ctypes.c_char * len(parameter)).from_buffer_copy(parameter)
        self.kernels.launch(
            self.kernel, params, block=threads, shared_bytes=shared_bytes, arrays=self.arrays, **self.schedule
        )
