"""A decoder of one version of arcbeam, in a process that `benchmarks.tasks.versions` starts and calls through a pipe.

It uses only what versions have in common: graphs and language models by their files, the decoder with the options that
it is given, and what a hypothesis has always had. Log-probs are sent to a GPU without arcbeam.
"""

import gc
import hashlib
import sys
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import arcbeam
from benchmarks.tasks.answering import answer


class Version:
    """The version of arcbeam in ``folder``, as the other process calls it. ImportError if another is imported.

    Python's collector is off between two calls of :meth:`load`: it would be part of a turn.
    """

    def __init__(self, folder: str) -> None:
        found, wanted = Path(str(arcbeam.__file__)).parent.parent.resolve(), Path(folder).resolve()
        if found != wanted:
            raise ImportError(f"expected the arcbeam of {wanted}, got that of {found}")
        self.decoder: Any = None
        self.batches: list[Any] = []
        self.found: list[Any] = []
        gc.disable()

    def load(
        self, graph: str, utterances: Sequence[npt.NDArray[np.float32]], batch: int, options: Mapping[str, Any]
    ) -> str | None:
        """Makes a decoder and sends it what it will decode. Returns None, or why this version has no such decoder.

        graph : a file of `Graph.save`
        utterances : log-probs, decoded in batches of so many
        options : of the decoder, which says the device; language models by their files
        """
        self.decoder, self.batches, self.found = None, [], []
        gc.collect()
        loaded = arcbeam.Graph.load(graph)
        try:
            self.decoder = arcbeam.CtcDecoder(loaded, **options)
        except Exception as error:
            lacks = isinstance(error, (arcbeam.UnsupportedError, arcbeam.MissingDependencyError))
            if not lacks and type(error) not in (TypeError, ValueError):  # an option or a value that it does not know
                raise
            return str(error).split("\n")[0]
        arrays = utterances if self.decoder.device == "cpu" else on_device(utterances)
        self.batches = [arrays[first : first + batch] for first in range(0, len(arrays), batch)]
        return None

    def decode(self) -> tuple[float, float]:
        """Decodes everything twice, and returns seconds of the second time: on the clock, and of processor time.

        The first time is for the caches, in which the other version has left its data.
        """
        self.found = self._decode()
        wall, cpu = time.perf_counter(), time.process_time()
        found = self._decode()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        self.found = found
        return wall, cpu

    def digests(self) -> list[str]:
        """Of what was found last, see :func:`digest`."""
        return list(map(digest, self.found))

    def described(self, utterance: int) -> str:
        """What was found for an utterance, for a message."""
        return described(self.found[utterance])

    def _decode(self) -> list[Any]:
        return [h for batch in self.batches for h in self.decoder.decode(batch)]


def digest(hypothesis: Any) -> str:
    """SHA-256 of all bytes of an answer: path, tokens, words, scores, and how it ended."""
    scores = np.float64([hypothesis.score, hypothesis.partial_score])
    ends = bytes([hypothesis.complete, hypothesis.reached_final])
    parts = hypothesis.arcs.tobytes(), hypothesis.tokens.tobytes(), hypothesis.text.encode(), scores.tobytes(), ends
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "little") + part for part in parts)).hexdigest()


def described(hypothesis: Any) -> str:
    """Text and score of an answer."""
    return f"{hypothesis.text!r} with score {hypothesis.score!r} and {len(hypothesis.arcs)} arcs"


class DeviceArray:
    """An array [frames, columns] of float32 on the GPU."""

    def __init__(self, address: int, shape: tuple[int, ...]) -> None:
        self.__cuda_array_interface__ = {
            "data": (address if shape[0] else 0, False),
            "shape": shape,
            "typestr": "<f4",
            "strides": None,
            "version": 3,
        }


def on_device(utterances: Sequence[npt.NDArray[np.float32]]) -> list[DeviceArray]:
    """The utterances on the first GPU, each at a multiple of 256 bytes, until this process ends."""
    from cuda.bindings import driver

    def check(result: Any) -> Any:
        error, *values = result
        if error != driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"the driver answered {error.name}")
        return values[0] if values else None

    check(driver.cuInit(0))
    context = check(driver.cuDevicePrimaryCtxRetain(check(driver.cuDeviceGet(0))))
    check(driver.cuCtxPushCurrent(context))
    offsets = np.concatenate([[0], np.cumsum([-(-u.nbytes // 256) * 256 for u in utterances])]).astype(int).tolist()
    packed = np.zeros(max(offsets[-1], 256), np.uint8)
    for u, offset in zip(utterances, offsets, strict=False):
        packed[offset : offset + u.nbytes] = np.ascontiguousarray(u).reshape(-1).view(np.uint8)
    memory = check(driver.cuMemAlloc(packed.nbytes))
    check(driver.cuMemcpyHtoD(memory, packed.ctypes.data, packed.nbytes))
    check(driver.cuCtxSynchronize())  # the copy of pageable memory may go on when the call is back
    check(driver.cuCtxPopCurrent())
    return [DeviceArray(int(memory) + offset, u.shape) for u, offset in zip(utterances, offsets, strict=False)]


if __name__ == "__main__":
    answer(Connection(int(sys.argv[1])), lambda: Version(sys.argv[2]))
