"""The host that looks for lattices while a kernel runs in the emulator; see looking.cpp."""

import ctypes
from pathlib import Path
from typing import Any

from tests.decode.emulated_gpu import EmulatedGpu


class Looking:
    """From now on it looks every so many scheduling points of a launch.

    Attributes
    ----------
    read_early : int
        The lattices that it has read while kernels ran; each was the same behind its launch.
    """

    def __init__(self, gpu: EmulatedGpu, every: int) -> None:
        self.every, self.read_early = every, 0
        gpu.sources_beside = (Path(__file__).with_name("looking.cpp"),)
        gpu.beside, gpu.after = self._begin, self._end

    def _begin(self, kernels: Any, name: str, parameters: Any) -> tuple[int, int, int] | None:
        self.library = kernels.library
        self.library.looking_begin.restype = ctypes.c_void_p
        self.all = self.library.looking_begin(parameters)
        look = ctypes.cast(self.library.looking_look, ctypes.c_void_p).value
        return None if self.all is None else (look, self.all, self.every)

    def _end(self) -> None:
        if self.all is not None:
            count = self.library.looking_end(ctypes.c_void_p(self.all))
            assert count >= 0, "a lattice was read before it was whole"
            self.read_early += count
