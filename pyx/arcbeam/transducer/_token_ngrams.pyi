from typing import Any, Self

import numpy as np
import numpy.typing as npt

from arcbeam.lm._kenlm import KenLmModel

class TokenNgramReader:
    def __new__(
        cls, model: KenLmModel, words: npt.NDArray[np.uint32], tokens: npt.NDArray[np.uint32], most: int
    ) -> Self: ...
    @property
    def unknown_weight(self) -> np.float32: ...
    def automaton(
        self, num_tokens: int, blank: int, missing_weight: float
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], npt.NDArray[Any], npt.NDArray[Any], int]: ...
