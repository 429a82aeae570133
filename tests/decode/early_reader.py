"""The host that reads lattices while a kernel runs in the emulator; see early_reader.cpp."""

import ctypes
from pathlib import Path
from typing import Any

from tests.decode.emulated_gpu import EmulatedGpu


class EarlyReader:
    """From now on it reads every so many scheduling points of a launch.

    Attributes
    ----------
    read_early : int
        The lattices that it has read while kernels ran; each was the same after its launch.
    """

    def __init__(self, gpu: EmulatedGpu, every: int) -> None:
        self.every, self.read_early = every, 0
        gpu.sources_beside = (Path(__file__).with_name("early_reader.cpp"),)
        gpu.beside, gpu.after = self._begin, self._end

    def _begin(self, kernels: Any, name: str, parameters: Any) -> tuple[int, int, int] | None:
        self.library = kernels.library
        self.library.early_reader_begin.restype = ctypes.c_void_p
        self.all = self.library.early_reader_begin(parameters)
        read = ctypes.cast(self.library.early_reader_read, ctypes.c_void_p).value
        return None if self.all is None else (read, self.all, self.every)

    def _end(self) -> None:
        if self.all is not None:
            count = self.library.early_reader_end(ctypes.c_void_p(self.all))
            assert count >= 0, "a lattice was read before it was whole"
            self.read_early += count
