"""The host of lanes that ask, beside a kernel in the emulator; see answering.cpp."""

import ctypes
from collections.abc import Sequence

import numpy as np

from arcbeam.ctc.gpu.models._requests import HostLookups
from tests.simt.build import ENGINE, HERE, Kernels

REQUESTS = ENGINE / "models" / "_requests"
SOURCES = (HERE.parent / "rescore" / "answering.cpp", REQUESTS / "server.cpp", REQUESTS / "copied_answers.cpp")


class Answering:
    """Answers by the engine's code, compiled together with the kernels.

    Parameters
    ----------
    kernels
        Loaded from `SOURCES`, too.
    answerer
        Its model answers.
    copies, looks
        Whether answers travel by copies, which arrive after so many looks.
    """

    def __init__(self, kernels: Kernels, answerer: HostLookups, *, copies: bool, looks: int = 0):
        self._library, self._answerer = kernels.library, answerer
        self._library.answering_begin.restype = ctypes.c_void_p
        for name in ("rounds", "questions", "sent"):
            self._library[f"answering_{name}"].restype = ctypes.c_uint64
        address = ctypes.c_void_p(answerer.address_of_answerer())
        self._all = ctypes.c_void_p(self._library.answering_begin(address, int(copies), looks))

    def __del__(self):
        self._library.answering_end(self._all)

    def have(self, views: np.ndarray, buffers: Sequence[np.ndarray] = ()) -> None:
        """From now on these are the lanes, and the buffers of each half. Memory must stay."""
        addresses = (ctypes.c_void_p * 2)(*(buffer.ctypes.data for buffer in buffers))
        self._library.answering_have(
            self._all, ctypes.c_void_p(views.ctypes.data), ctypes.c_size_t(len(views)), addresses
        )

    def write_rows_to(self, rows: np.ndarray, words_a_row: int) -> None:
        """Where KenLM's histories leave their words."""
        self._library.answering_write_rows_to(
            self._all, ctypes.c_void_p(rows.ctypes.data), ctypes.c_size_t(words_a_row)
        )

    def answer(self) -> bool:
        """Answers what has been posted; returns whether there was room for all answers."""
        return bool(self._library.answering_answer(self._all))

    def beside_a_kernel(self) -> tuple[int, int]:
        """The addresses of a C function that answers these lanes, and of its argument."""
        return ctypes.cast(self._library.answering_beside, ctypes.c_void_p).value, self._all.value

    @property
    def rounds(self) -> int:
        """The number of times that a lane has asked."""
        return self._library.answering_rounds(self._all)

    @property
    def questions(self) -> int:
        return self._library.answering_questions(self._all)

    @property
    def sent(self) -> list[int]:
        """The number of batches of answers that each half has sent."""
        return [self._library.answering_sent(self._all, ctypes.c_size_t(half)) for half in range(2)]
