from typing import Self

import numpy as np
import numpy.typing as npt

from arcbeam.core._pooled_engine import PooledEngine
from arcbeam.core.confidence import Measure

class FrameConfidenceEngine(PooledEngine):
    def __new__(cls, *, threads: int, portable: bool = False) -> Self: ...
    def confidences(
        self, utterances: npt.NDArray[np.int64], columns: int, measure: Measure
    ) -> npt.NDArray[np.float32]: ...
