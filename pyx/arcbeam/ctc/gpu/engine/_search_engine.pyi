from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import numpy.typing as npt

from arcbeam.arrays._input_checks import InputChecks
from arcbeam.ctc.boost._boost import BoostList
from arcbeam.ctc.gpu._streams import CudaStream
from arcbeam.ctc.gpu.models._requests import HostLookups
from arcbeam.ctc.lattice._lattice import AnswerEngine
from arcbeam.ctc.lattice.answers import AnswerRequest
from arcbeam.ctc.options import DecoderOptions
from arcbeam.ctc.rescoring import Rescoring
from arcbeam.ctc.streams.endpoint import EndpointRules
from arcbeam.ctc.streams.sentences import LmContext, SavedSearch
from arcbeam.gpu._cuda import Context
from arcbeam.gpu._launch import Stream
from arcbeam.graph.graph import Graph

class CudaEngine:
    @property
    def context(self) -> Context: ...
    @property
    def stream(self) -> Stream: ...
    def __init__(
        self,
        graph: Graph,
        ordinal: int,
        options: DecoderOptions,
        answers: AnswerEngine,
        *,
        threads: int,
        lookup_threads: int,
        rescoring: Rescoring | None = None,
    ) -> None: ...
    def decode(
        self,
        utterances: npt.NDArray[np.int64],
        columns: int,
        on_host: bool,
        checks: InputChecks | None = None,
        lattice_beam: float | None = None,
        boosts: BoostList | Sequence[BoostList | None] | None = None,
        streams: list[CudaStream] | None = None,
        last: list[bool] | None = None,
        logits: npt.NDArray[np.bool_] | None = None,
        starts: npt.NDArray[np.integer[Any]] | None = None,
        answers: AnswerRequest | None = None,
    ) -> tuple[tuple[Any, ...], dict[str, Any], list[tuple[int, ...]]]: ...
    def new_stream(
        self,
        boost: BoostList | None = None,
        rules: EndpointRules | None = None,
        lm_context: LmContext | None = None,
        saved: SavedSearch | None = None,
        lattice_beam: float | None = None,
    ) -> CudaStream: ...
    def decoding_lock(self) -> AbstractContextManager[Any]: ...
    def finished(self) -> int: ...
    def memory(self) -> dict[str, int]: ...
    def release(self) -> None: ...
    @property
    def placement(self) -> str | None: ...
    @property
    def host_lookups(self) -> HostLookups | None: ...
