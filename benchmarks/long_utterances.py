"""Utterances of any length for the experiments `long` and `gpu_long`: a set's recordings behind each other."""

import numpy as np
import numpy.typing as npt

from benchmarks.datasets import Dataset
from benchmarks.registry import Column, Context

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


def joined(dataset: Dataset, minutes: float) -> npt.NDArray[np.float32]:
    """float32[frames, columns]: all recordings behind each other, over and over."""
    frames = max(1, round(60 * minutes / dataset.frame_shift))
    turns = -(-frames // len(dataset.log_probs))
    return np.ascontiguousarray(np.tile(dataset.log_probs, (turns, 1))[:frames], np.float32)
