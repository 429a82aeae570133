from typing import Any, Self

from arcbeam.ctc.options import DecoderOptions
from arcbeam.ctc.rescoring import Rescoring
from arcbeam.gpu._cuda import Context
from arcbeam.gpu._host_buffers import UNPINNED as UNPINNED
from arcbeam.gpu._launch import Stream
from arcbeam.gpu.tuned.lm_placement import Placement
from arcbeam.graph.graph import Graph
from arcbeam.lm._lm_buckets import FULLNESS as FULLNESS
from arcbeam.lm.language_model import LanguageModel

COLUMNS: tuple[str, ...]
ARCS: tuple[str, ...]
BUCKETS: tuple[str, ...]

class DeviceModel:
    def __new__(
        cls,
        model: LanguageModel,
        context: Context,
        on_host: tuple[str, ...],
        absent: tuple[str, ...],
    ) -> Self: ...
    @property
    def context(self) -> Context: ...
    @property
    def source(self) -> LanguageModel: ...
    @property
    def device_bytes(self) -> int: ...
    @property
    def pinned_bytes(self) -> int: ...
    @property
    def bucketed_bytes(self) -> int: ...

class DeviceWords:
    def __new__(cls, graph: Graph, context: Context) -> Self: ...
    @property
    def context(self) -> Context: ...
    @property
    def source(self) -> Graph: ...
    @property
    def bytes(self) -> int: ...
    @property
    def of_epsilons(self) -> bool: ...

def most_beginnings(large_states: int, small_states: int) -> int: ...

class DeviceRescoring:
    def __new__(
        cls,
        graph: Graph,
        rescoring: Rescoring,
        context: Context,
        stream: Stream,
        options: DecoderOptions,
        *,
        taken: int,
        lookup_threads: int,
    ) -> Self: ...
    @property
    def placement(self) -> Placement: ...
    def work(self) -> dict[str, Any]: ...
