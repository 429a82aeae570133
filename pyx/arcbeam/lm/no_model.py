"""The language model of a graph that has none: every word and every end of a sentence costs nothing."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from arcbeam.lm.language_model import LanguageModel


@functools.cache
def no_model() -> LanguageModel:
    """A model of order 1 with the label 1 for all words."""
    arcs = np.zeros(2, [("next_state", "<u4"), ("weight", "<f4")])
    columns: dict[str, npt.NDArray[Any]] = {
        "labels.low": np.array([1, 2], np.uint16), "labels.high": np.zeros(0, np.uint32),
        "first.offsets": np.array([0, 2], np.uint8), "first.bases": np.zeros(1, np.uint32),
        "first.wide": np.zeros(0, np.uint32), "backoff.steps": np.zeros(1, np.uint64),
        "backoff.bases": np.zeros(1, np.uint32), "backoff.wide": np.zeros(0, np.uint32), "arcs": arcs,
        "backoff.weights": np.zeros(1, np.float32), "lengths": np.array([0, 1], np.uint32),
        "words.ends": np.array([5], np.uint64), "words.text": np.frombuffer(b"<unk>", np.uint8).copy(),
    }  # fmt: skip
    return LanguageModel(
        columns, {"high_bits": 0, "start": 0, "num_labels": 2, "digest": "", "notes": (), "ngrams": [3]}
    )
