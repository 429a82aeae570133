from typing import Self, final

from arcbeam.ctc.gpu.models._models import DeviceRescoring
from arcbeam.ctc.gpu.models._request_buffers import LaneRequests
from arcbeam.ctc.gpu.searches._search import DeviceGraph
from arcbeam.ctc.options import DecoderOptions
from arcbeam.gpu._launch import Stream
from arcbeam.gpu._memory import MemoryPool

@final
class Window:
    def __new__(
        cls,
        graph: DeviceGraph,
        options: DecoderOptions,
        pool: MemoryPool,
        stream: Stream,
        copies: Stream,
        rescoring: DeviceRescoring | None,
        requests: LaneRequests | None,
        threads: int,
    ) -> Self: ...
