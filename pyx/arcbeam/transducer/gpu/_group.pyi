from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

LANE: np.dtype[Any]
RECORD: np.dtype[Any]
BAD_INPUT: int

class Group: ...

class Collected:
    lanes: npt.NDArray[Any]
    before: list[tuple[int, int]]
    records: npt.NDArray[Any]
    context: npt.NDArray[np.int32]
    hidden: npt.NDArray[Any]
    cell: npt.NDArray[np.float32]
    with_durations: bool
    with_confidence: bool
    fused: npt.NDArray[np.uint32] | None
    def __init__(
        self,
        lanes: npt.NDArray[Any],
        before: list[tuple[int, int]],
        records: npt.NDArray[Any],
        context: npt.NDArray[np.int32],
        hidden: npt.NDArray[Any],
        cell: npt.NDArray[np.float32],
        with_durations: bool,
        with_confidence: bool,
        fused: npt.NDArray[np.uint32] | None,
    ) -> None: ...
    def add_to(self, bad: list[tuple[int, ...]], members: Sequence[int]) -> None: ...
    def take(self, i: int) -> tuple[Any, ...]: ...
