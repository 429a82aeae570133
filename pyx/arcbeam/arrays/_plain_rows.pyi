from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from arcbeam.arrays._array_memory import DeviceMemory

def even_rows(
    count: int, address: int, steps: tuple[int, int], frames: int, is_half: bool
) -> npt.NDArray[np.int64]: ...
def plain_rows(
    items: Sequence[object],
    kind: type,
    table: npt.NDArray[np.int64],
    columns: int,
    exact: bool,
    memory: DeviceMemory | None = None,
) -> tuple[int, list[Any], set[int]] | None: ...
