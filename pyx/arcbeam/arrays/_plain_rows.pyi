from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from arcbeam.arrays._array_memory import DeviceMemory

def plain_rows(
    items: Sequence[object],
    kind: type,
    table: npt.NDArray[np.int64],
    columns: int,
    exact: bool,
    memory: DeviceMemory | None = None,
) -> tuple[int, list[Any], set[int]] | None: ...
