"""The host of lanes that send requests, while a kernel runs in the emulator; see answering.cpp."""

import ctypes
from pathlib import Path
from typing import Any

from arcbeam import CtcDecoder
from tests.decode.emulated_gpu import EmulatedGpu
from tests.simt.build import ENGINE

REQUESTS = ENGINE / "models" / "_requests"
SOURCES = (Path(__file__).with_name("answering.cpp"), REQUESTS / "server.cpp", REQUESTS / "copied_answers.cpp")
NO_THREADS = {"ANSWERING_THREADS": 0}  # of the engine, which then answers between launches


class Answering:
    """From now on the engine's code, compiled together with the kernels, answers every so many scheduling points.

    Parameters
    ----------
    gpu
        Its plan has `NO_THREADS`.
    decoder
        Its model answers.
    polls
        Where answers travel by copies, after so many polls they arrive.
    """

    def __init__(self, gpu: EmulatedGpu, decoder: CtcDecoder, every: int, polls: int = 0) -> None:
        self.every, self.polls = every, polls
        self.lookups = decoder._search.engine.host_lookups
        self.is_kenlm = decoder._search.engine.placement == "cpu"
        self.counts = (ctypes.c_uint64 * 4)()
        self.gpu, self.all = gpu, None
        gpu.sources_beside = SOURCES
        gpu.beside, gpu.after = self._begin, self._end

    def _begin(self, kernels: Any, name: str, parameters: Any) -> tuple[int, int, int] | None:
        if "host_" not in name:
            return None
        self.library = kernels.library
        self.library.answering_begin.restype = ctypes.c_void_p
        address, lanes = self.lookups.address_of_answerer(), self.gpu.launches[-1][1].blocks
        numbered = self.lookups.histories if self.is_kenlm else 0
        self.all = self.library.answering_begin(
            ctypes.c_void_p(address), parameters, ctypes.c_size_t(lanes), ctypes.c_size_t(numbered), self.polls
        )
        beside = ctypes.cast(self.library.answering_beside, ctypes.c_void_p).value
        return beside, self.all, self.every

    def _end(self) -> None:
        if self.all is not None:
            self.library.answering_end(ctypes.c_void_p(self.all), self.counts)
            self.all = None

    @property
    def rounds(self) -> int:
        """The number of requests that were answered while a kernel ran."""
        return self.counts[0]

    @property
    def questions(self) -> int:
        return self.counts[1]

    @property
    def sent(self) -> list[int]:
        """The number of batches of answers that each half has sent."""
        return list(self.counts[2:])
