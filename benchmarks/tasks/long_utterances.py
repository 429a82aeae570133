"""Utterances of any length for the experiments `long` and `gpu_long`."""

import numpy as np
import numpy.typing as npt

from benchmarks.data.datasets import Dataset
from benchmarks.harness.registry import Column, Context

TAKES = {"minutes": "lengths of the utterance, as 1,10,60"}
COLUMNS = [
    Column("graph", "graph"),
    Column("beam / max_active", "search"),
    Column("minutes", "minutes", "{:g}"),
    Column("frames", "frames", "{:,.0f}"),
    Column("microseconds a frame", "us_a_frame", "{:.2f}"),
    Column("spread", "spread", "{:.2f}"),
    Column("times the shortest's", "ratio", "{:.2f}"),
    Column("RTFx", "rtfx", "{:,.0f}"),
    Column("tokens a frame", "tokens", "{:,.0f}"),
]


def lengths(context: Context) -> list[float]:
    """Minutes of the utterances, the shortest first."""
    return sorted(float(minutes) for minutes in context.options.get("minutes", "1,10,60").split(","))


def utterances(dataset: Dataset, context: Context) -> list[npt.NDArray[np.float32]]:
    """float32[frames, columns] of each length: the set's first, and that over and over.

    So all have the same speech, and a frame the same work.
    """
    frames = [max(1, round(60 * minutes / dataset.frame_shift)) for minutes in lengths(context)]
    first = dataset.log_probs[: frames[0]]
    return [np.ascontiguousarray(np.tile(first, (-(-n // len(first)), 1))[:n], np.float32) for n in frames]
