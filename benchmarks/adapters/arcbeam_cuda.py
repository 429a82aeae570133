"""arcbeam's engine on a GPU."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.adapters import Answer, SearchOptions, gpu
from benchmarks.data.graphs import GraphFiles


class ArcbeamCuda:
    """Decodes ``options.batch`` utterances at a time, to their words."""

    name = "arcbeam cuda"
    device = "cuda"

    def __init__(self, files: GraphFiles, options: SearchOptions, **more: Any) -> None:
        gpu.require()
        self.graph = files.graph
        self.batch = options.batch
        self.settings = f"{options}, batch {options.batch}"
        self.decoder = gpu.decoder(self.graph, options, **more)

    def prepare(self, utterances: Sequence[npt.NDArray[np.floating]]) -> list[gpu.DeviceArray]:
        return gpu.send(utterances)

    def look_into(self, arrays: Sequence[Any]) -> list[Any]:
        """Log-probs that are on the GPU already; the decoder takes them as they are."""
        return list(arrays)

    def search(self, prepared: Sequence[Any]) -> list[Any]:
        """Paths alone: words are derived when they are requested."""
        starts = range(0, len(prepared), self.batch)
        return [h for first in starts for h in self.decoder.decode(prepared[first : first + self.batch])]

    def decode(self, prepared: Any) -> Any:
        found = self.search(prepared)
        for hypothesis in found:
            hypothesis.text  # noqa: B018 - as above
        return found

    def answers(self, decoded: Any) -> list[Answer]:
        return [
            Answer(h.text, -(h.acoustic_score + h.graph_score), h.reached_final, h.tokens.tolist(), h.word_ids.tolist())
            for h in decoded
        ]


ADAPTER = ArcbeamCuda
