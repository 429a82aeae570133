from typing import Any

import numpy as np
import numpy.typing as npt

from arcbeam.arrays._input_checks import InputChecks
from arcbeam.core._pooled_engine import PooledEngine

class LogProbEngine(PooledEngine):
    def decode(
        self, utterances: npt.NDArray[np.int64], columns: int, on_host: bool = True, checks: InputChecks | None = None
    ) -> tuple[Any, dict[str, int], list[tuple[int, ...]]]: ...
