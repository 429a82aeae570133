"""One decode with a large language model on both engines, wherever a GPU has it, under a schedule."""

import ctypes
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from arcbeam import KenLM
from tests.decode import both_engines, kenlm_files
from tests.decode.both_engines import Seen
from tests.decode.emulated_gpu import EmulatedGpu
from tests.decode.language_models import WORDS
from tests.rescore.answering import NO_THREADS, Answering

PLACES: dict[str, dict[str, Any]] = {
    "resident": {"placement": "resident"},
    "index on the device": {"placement": "host-direct", "arc_cache": 512},
    "bucketed": {"placement": "host-direct", "gpu_budget": 512},
    "arcs requested": {"placement": "host", "threads": 2},
    "kenlm": {"placement": "cpu", "threads": 2},
}
CACHED = {"placement": "resident", "arc_cache": 512}
REQUESTED = ("arcs requested", "kenlm")  # the host, while the kernel runs


@lru_cache
def kenlm() -> KenLM:
    """Of most of `WORDS`."""
    kenlm_files.need_kenlm()
    with tempfile.TemporaryDirectory() as folder:
        return KenLM(kenlm_files.random_ngrams(WORDS[:44], 3, 5).write(Path(folder, "lm.arpa")))


class Outputs(NamedTuple):
    """What a decode took, and what the host has answered while kernels ran."""

    seen: Seen
    answering: Answering | None


def check(
    graph: Any, models: Any, batch: Any, *, place: str = "resident", arc_cache: int | None = None, every: int = 50,
    polls: int = 0, requests: int = 256, histories: int = 5000, wait_cycles: int = 3000,
    bits: tuple[int, int] | None = None, **options: Any,
) -> Outputs:  # fmt: skip
    """As `tests.decode.both_engines.check`, and where lanes send requests, answers come while the kernel runs.

    Parameters
    ----------
    place
        One of `PLACES`, or "cached".
    every, polls
        Scheduling points between the host's polls, 0 if it answers between launches alone; and see `Answering`.
    requests, histories, wait_cycles
        The room for answers and for histories of KenLM at first, and how long lanes wait for the host.
    bits
        Of a history, for the states of the small model and for those of a boost, where a search has both.
    """
    where = {"arc_cache": 0} | (PLACES | {"cached": CACHED})[place]
    if arc_cache is not None:
        where["arc_cache"] = arc_cache
    if place == "bucketed" and arc_cache:
        where["gpu_budget"] = max(512, arc_cache)  # which leaves no room for the index
    figures = {"REQUEST_ENTRIES": requests, "REQUEST_HISTORIES": histories, "WAIT_CYCLES": wait_cycles} | NO_THREADS
    answering: list[Answering] = []

    def prepare(gpu: EmulatedGpu, decoder: Any) -> None:
        if place in REQUESTED and every:
            answering.append(Answering(gpu, decoder, every, polls))
        if bits is not None:
            share_bits(gpu, bits)

    seen = both_engines.check(
        graph, batch, language_model=models[0], graph_language_model=models[1], where=where, figures=figures,
        prepare=prepare, **options,
    )  # fmt: skip
    return Outputs(seen, answering[0] if answering else None)


def share_bits(gpu: EmulatedGpu, bits: tuple[int, int]) -> None:
    """From now on kernels give states of the small model and of boosts so many bits of a history."""
    beside = gpu.beside

    def change(kernels: Any, name: str, parameters: Any) -> Any:
        ends = 584  # of the parameters of a search with models
        (ctypes.c_uint32 * 2).from_buffer(parameters, ends - 8)[:] = bits
        return beside(kernels, name, parameters)

    gpu.beside = change
