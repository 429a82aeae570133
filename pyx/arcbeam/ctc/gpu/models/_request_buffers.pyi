from typing import Self

from arcbeam.ctc.rescoring import Rescoring
from arcbeam.gpu._cuda import Context
from arcbeam.gpu._launch import Stream
from arcbeam.gpu._memory import MemoryPool

class Half:
    def __new__(cls, context: Context) -> Self: ...

class LaneRequests:
    def __new__(cls, pool: MemoryPool, stream: Stream, rescoring: Rescoring, threads: int) -> Self: ...
    @property
    def questions(self) -> int: ...
    @property
    def rounds(self) -> int: ...
    @property
    def answer_batches(self) -> int | None: ...
    @property
    def bytes(self) -> int: ...
