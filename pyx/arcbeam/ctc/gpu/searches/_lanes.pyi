from typing import Self

from arcbeam.ctc.gpu.searches._search import SearchKind
from arcbeam.gpu._launch import Stream
from arcbeam.gpu._memory import MemoryPool

class Lanes:
    def __new__(cls, kind: SearchKind, pool: MemoryPool, stream: Stream) -> Self: ...
    @property
    def most_states(self) -> int: ...
