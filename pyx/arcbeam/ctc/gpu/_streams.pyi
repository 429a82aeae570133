from typing import Any, Self, final

from arcbeam.ctc.boost._boost import BoostList
from arcbeam.ctc.gpu.models._models import DeviceRescoring
from arcbeam.ctc.streams._rounds import SearchState
from arcbeam.ctc.streams.endpoint import EndpointRules
from arcbeam.ctc.streams.sentences import LmContext, SavedSearch
from arcbeam.gpu._launch import Stream
from arcbeam.gpu._memory import MemoryPool
from arcbeam.graph.graph import Graph

@final
class LinkRoom:
    def __new__(cls, pool: MemoryPool, stream: Stream) -> Self: ...

@final
class SpareRooms:
    @property
    def nbytes(self) -> int: ...

@final
class CudaStream(SearchState):
    @property
    def boost(self) -> BoostList | None: ...
    @property
    def frames(self) -> int: ...
    @property
    def fired(self) -> int: ...
    @property
    def has_begun(self) -> bool: ...
    @property
    def keeps_links(self) -> bool: ...
    def __new__(
        cls,
        pool: MemoryPool,
        stream: Stream,
        graph: Graph,
        rescoring: DeviceRescoring | None,
        spares: SpareRooms,
        boost: BoostList | None,
        rules: EndpointRules | None,
        lm_context: LmContext | None,
        saved: SavedSearch | None,
        lattice_beam: float | None = None,
    ) -> Self: ...
    @property
    def nbytes(self) -> int: ...
    def search(self, with_lattice: bool = False) -> dict[str, Any]: ...
    def release_lm_histories(self) -> int: ...
