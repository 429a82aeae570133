from typing import Self, final

from arcbeam.ctc.gpu.searches._search import SearchKind
from arcbeam.gpu._launch import Stream
from arcbeam.gpu._memory import MemoryPool

@final
class Search:
    def __new__(cls, kind: SearchKind, pool: MemoryPool, stream: Stream) -> Self: ...

@final
class Searches:
    def __new__(
        cls,
        pool: MemoryPool,
        stream: Stream,
        rescores: bool,
        asks: bool,
        asks_arcs: bool,
        bucketed: bool,
    ) -> Self: ...
