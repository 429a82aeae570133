from typing import Self, final

from arcbeam.ctc._boost import BoostList
from arcbeam.ctc._rounds import SearchState
from arcbeam.gpu._launch import Stream
from arcbeam.gpu._memory import MemoryPool

@final
class StateRoom:
    def __new__(cls, pool: MemoryPool, stream: Stream) -> Self: ...

@final
class CudaStream(SearchState):
    @property
    def boost(self) -> BoostList | None: ...
    @property
    def frames(self) -> int: ...
    def __new__(cls, pool: MemoryPool, stream: Stream, boost: BoostList | None) -> Self: ...
    @property
    def is_whole(self) -> bool: ...
    @property
    def nbytes(self) -> int: ...
