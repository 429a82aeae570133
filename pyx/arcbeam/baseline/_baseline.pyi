from typing import Self

import numpy as np
import numpy.typing as npt

from arcbeam.arrays._log_prob_engine import LogProbEngine
from arcbeam.baseline.options import LexiconFreeOptions
from arcbeam.lm._kenlm import KenLmModel

SMEARING: dict[str, int]

class BaselineEngine(LogProbEngine):
    def __new__(
        cls,
        options: LexiconFreeOptions,
        *,
        lexicon: tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint32], npt.NDArray[np.uint32], npt.NDArray[np.float32]]
        | None,
        lm: KenLmModel | None,
        words: npt.NDArray[np.uint32],
        blank: int,
        silence: int,
        separator: int,
        collect_above: int,
        threads: int,
    ) -> Self: ...
    @property
    def nodes(self) -> int: ...
