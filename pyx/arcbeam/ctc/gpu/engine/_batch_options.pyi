from collections.abc import Sequence
from typing import Self, final

from arcbeam.ctc.boost._boost import BoostList
from arcbeam.ctc.gpu._streams import CudaStream

@final
class BatchOptions:
    def __new__(
        cls,
        utterances: int,
        lattice_beam: float | None,
        boosts: BoostList | Sequence[BoostList | None] | None,
        streams: list[CudaStream] | None,
        last: list[bool] | None,
        asks: bool,
    ) -> Self: ...
