"""flashlight-text with the lexicon and the LM of a graph: one core, smearing by the best word."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.adapters import Answer, SearchOptions, distinct, lexicon_task
from benchmarks.adapters.flashlight_text import FlashlightText
from benchmarks.data.graphs import GraphFiles


class FlashlightWords:
    name = "flashlight-text"
    device = "cpu"

    def __init__(self, files: GraphFiles, options: SearchOptions) -> None:
        task = lexicon_task.task_of(files, options)
        self.settings = lexicon_task.describe(task, options)
        self.scale = np.float32(options.acoustic_scale)
        self.decoder = FlashlightText(task)

    def prepare(self, utterances: Sequence[npt.NDArray[np.floating]]) -> Any:
        return self.decoder.prepare([np.asarray(u, np.float32) * self.scale for u in utterances])

    def decode(self, prepared: Any) -> Any:
        return self.decoder.decode(prepared)

    def answers(self, decoded: Any) -> list[Answer]:
        return lexicon_task.best(self.decoder.answers(decoded, 1))

    def alternatives(self, decoded: Any) -> list[list[str]]:
        return [distinct(answer.text for answer in answers) for answers in self.decoder.answers(decoded, None)]


ADAPTER = FlashlightWords
