"""The baseline with the lexicon and the LM of a graph, by Flashlight's rules or by the mended ones."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.adapters import Answer, SearchOptions, lexicon_task
from benchmarks.adapters.baseline import Baseline
from benchmarks.data.graphs import GraphFiles


class BaselineWords:
    name = "baseline"
    device = "cpu"

    def __init__(self, files: GraphFiles, options: SearchOptions, threads: int = 1, mended: bool = False) -> None:
        task = lexicon_task.task_of(files, options, mended)
        rules = "; the last token of a word may repeat, the last separator may lack" if mended else ""
        self.settings = f"{lexicon_task.describe(task, options)}, {threads} thread{'s'[: threads != 1]}{rules}"
        self.scale = np.float32(options.acoustic_scale)
        self.decoder = Baseline(task, threads)

    def prepare(self, utterances: Sequence[npt.NDArray[np.floating]]) -> Any:
        return self.decoder.prepare([np.asarray(u, np.float32) * self.scale for u in utterances])

    def decode(self, prepared: Any) -> Any:
        return self.decoder.decode(prepared)

    def answers(self, decoded: Any) -> list[Answer]:
        return lexicon_task.best(self.decoder.answers(decoded))


ADAPTER = BaselineWords
