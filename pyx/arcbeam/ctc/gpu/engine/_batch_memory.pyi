from typing import Self

from arcbeam.gpu._launch import Stream
from arcbeam.gpu._memory import MemoryPool

class BatchMemory:
    def __new__(cls, pool: MemoryPool, stream: Stream) -> Self: ...
