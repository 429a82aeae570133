from typing import Any, Self

import numpy as np
import numpy.typing as npt

from arcbeam.arrays._log_prob_engine import LogProbEngine
from arcbeam.lm._kenlm import KenLmModel

SMEARING: dict[str, int]

class BaselineEngine(LogProbEngine):
    def __new__(
        cls,
        *,
        lexicon: tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint32], npt.NDArray[np.uint32], npt.NDArray[np.float32]]
        | None,
        smearing: str,
        lm: KenLmModel | None,
        words: npt.NDArray[np.uint32],
        options: dict[str, Any],
        threads: int,
    ) -> Self: ...
    @property
    def nodes(self) -> int: ...
