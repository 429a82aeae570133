from typing import Self, final

from arcbeam.gpu._cuda import Context
from arcbeam.gpu._launch import Stream
from arcbeam.gpu._memory import MemoryPool
from arcbeam.graph.graph import Graph

@final
class Place: ...

class DeviceBoosts:
    def __new__(cls, graph: Graph, context: Context, stream: Stream, pool: MemoryPool) -> Self: ...
