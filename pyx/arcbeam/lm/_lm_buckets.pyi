from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from arcbeam.lm._language_model import ARC as ARC

FULLNESS: float
LINE: int
LINK: np.dtype[Any]
ENTRY: np.dtype[Any]

def filling_threads() -> int: ...

class Buckets:
    def __new__(
        cls,
        columns: Mapping[str, npt.NDArray[Any]],
        about: Mapping[str, Any],
        fullness: float = 0.85,
        threads: int | None = None,
    ) -> Self: ...
    @property
    def chains(self) -> npt.NDArray[Any]: ...
    @property
    def words(self) -> npt.NDArray[Any]: ...
    @property
    def entries(self) -> npt.NDArray[Any]: ...
    @property
    def seed(self) -> int: ...
    def steps(
        self, states: npt.NDArray[np.uint32], labels: npt.NDArray[np.uint32]
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.uint32], npt.NDArray[np.uint32]]: ...
