from typing import Self, final

import numpy as np
import numpy.typing as npt

from arcbeam.ctc._boost import BoostList
from arcbeam.gpu._launch import Stream
from arcbeam.gpu._memory import MemoryPool

@final
class StateRoom:
    def __new__(cls, pool: MemoryPool, stream: Stream) -> Self: ...

@final
class CudaStream:
    @property
    def boost(self) -> BoostList | None: ...
    @property
    def frames(self) -> int: ...
    def __new__(cls, pool: MemoryPool, stream: Stream, boost: BoostList | None) -> Self: ...
    @property
    def is_whole(self) -> bool: ...
    @property
    def nbytes(self) -> int: ...
    def take_settled(self) -> npt.NDArray[np.uint32]: ...
