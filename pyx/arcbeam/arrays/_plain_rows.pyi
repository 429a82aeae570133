from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from arcbeam.arrays._array_memory import DeviceMemory

def even_rows(
    count: int, address: int, steps: tuple[int, int], frames: int, is_half: bool
) -> npt.NDArray[np.int64]: ...
def plain_batch(
    item: object, columns: int, exact: bool, memory: DeviceMemory
) -> tuple[npt.NDArray[np.int64], int, dict[int, bool | None]] | None: ...
def plain_rows(
    items: Sequence[object],
    columns: int,
    exact: bool,
    take: Callable[[Any, int], tuple[int, int, int, bool, int, Any]],
    memory: DeviceMemory | None = None,
) -> tuple[npt.NDArray[np.int64], list[Any], set[int], dict[int, int | None]]: ...
