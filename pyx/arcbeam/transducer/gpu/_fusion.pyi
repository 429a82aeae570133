from typing import Any

import numpy as np
import numpy.typing as npt

from arcbeam.gpu._memory import DeviceBuffer

VIEW: np.dtype[Any]
ARRAYS: tuple[str, ...]
NOTHING: bytes

class Table:
    view: npt.NDArray[Any]
    memory: DeviceBuffer
    def __init__(self, view: npt.NDArray[Any], memory: DeviceBuffer) -> None: ...

class FusionMemory:
    def memory(self) -> dict[str, int]: ...
    def states(self) -> npt.NDArray[np.uint32]: ...
