from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

_Columns = Mapping[str, npt.NDArray[Any]]

ARC: np.dtype[Any]
STATES_A_BLOCK: int

def validate(columns: _Columns, about: Mapping[str, Any]) -> None: ...
def walk(
    columns: _Columns, about: Mapping[str, Any], state: int, labels: npt.NDArray[np.uint32]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.uint32], npt.NDArray[np.uint32]]: ...
def listed(
    columns: _Columns, about: Mapping[str, Any]
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], npt.NDArray[np.uint32]]: ...
