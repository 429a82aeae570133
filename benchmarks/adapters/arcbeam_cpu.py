"""arcbeam's CPU engine."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import arcbeam
from benchmarks.adapters import Answer, SearchOptions
from benchmarks.data.graphs import GraphFiles


class ArcbeamCpu:
    name = "arcbeam cpu"
    device = "cpu"

    def __init__(self, files: GraphFiles, options: SearchOptions, threads: int = 1, nbest: int | None = None) -> None:
        self.settings = f"{options}, {threads} thread{'s'[: threads != 1]}"
        if nbest is not None:
            self.settings += f", lattice beam {options.lattice_beam:g}"
        self.nbest = nbest
        self.graph = arcbeam.Graph.load(files.arcbeam)
        self.decoder = arcbeam.CtcDecoder(
            self.graph, beam=options.beam, max_active=options.max_active, acoustic_scale=options.acoustic_scale,
            lattice_beam=options.lattice_beam, threads=threads, device="cpu",
        )  # fmt: skip

    def prepare(self, utterances: Sequence[npt.NDArray[np.floating]]) -> list[npt.NDArray[np.float32]]:
        return [np.ascontiguousarray(u, np.float32) for u in utterances]

    def decode(self, prepared: Any) -> Any:
        found = self.decoder.decode(prepared, nbest=self.nbest)
        for hypothesis in found:
            hypothesis.word_ids  # noqa: B018 - words are derived when first requested
            for entry in hypothesis.nbest or ():
                entry.text  # noqa: B018
        return found

    def alternatives(self, decoded: Any) -> list[list[str]]:
        return [[entry.text for entry in hypothesis.nbest] for hypothesis in decoded]

    def answers(self, decoded: Any) -> list[Answer]:
        # The parts are summed along the path, the final weight with the graph's.
        return [
            Answer(h.text, -(h.acoustic_score + h.graph_score), h.reached_final, h.tokens.tolist(), h.word_ids.tolist())
            for h in decoded
        ]


ADAPTER = ArcbeamCpu
