from typing import Self

import numpy as np
import numpy.typing as npt

from arcbeam.gpu._launch import Stream
from arcbeam.gpu._memory import MemoryPool

class Staging:
    def __new__(cls, pool: MemoryPool, stream: Stream, threads: int) -> Self: ...
    @property
    def piece_frames(self) -> int: ...

def plan_of(
    utterances: npt.NDArray[np.int64], columns: int, lanes: int, piece_frames: int
) -> list[tuple[int, int, int, int]]: ...
