from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from arcbeam.arrays.batches import Inputs
from arcbeam.core.confidence import ConfidenceMethod
from arcbeam.ctc.boost.boost import Boost
from arcbeam.ctc.confidence.frame_confidences import ChunkConfidences
from arcbeam.ctc.lattice._lattices import Lattices
from arcbeam.ctc.results import Outputs, Results
from arcbeam.ctc.streams.partial import Partial
from arcbeam.ctc.streams.sentences import LmContext
from arcbeam.graph._words import GrowingPath, WordReader
from arcbeam.streams._any_stream import AnyStream
from arcbeam.streams.endpoints import Endpoint
from arcbeam.streams.waiting import Waiting

class SearchState: ...

class Sentence(GrowingPath):
    @property
    def boost(self) -> Boost | None: ...
    @property
    def lm_context(self) -> LmContext: ...
    @property
    def endpoint(self) -> Endpoint | None: ...
    @property
    def posterior_scale(self) -> float | None: ...
    @property
    def aggregation(self) -> str | None: ...
    @property
    def first_frame(self) -> int: ...
    @property
    def outputs(self) -> Outputs | None: ...
    def __init__(
        self,
        open_reader: Callable[[], WordReader],
        boost: Boost | None,
        first_frame: int,
        lm_context: LmContext,
        endpoint: Endpoint | None,
        posterior_scale: float | None,
        aggregation: str | None,
        outputs: Outputs | None = None,
        arcs: npt.NDArray[np.uint32] | None = None,
        of_frames: npt.NDArray[np.float32] | None = None,
    ) -> None: ...
    def confidences(self, count: int) -> npt.NDArray[np.float32]: ...

class SentenceStream(AnyStream):
    _state: Any
    _sentence: Sentence
    _waiting: list[Waiting]
    _last_came: bool
    _lattice: Lattices | None
    _posteriors: bool
    _method: ConfidenceMethod | None
    _logits: bool
    @property
    def num_settled(self) -> int:
        """The arcs that all later results of the sentence begin with."""
    @property
    def num_frames(self) -> int:
        """Frames that have been decoded so far: of all chunks, but for those that wait."""
    @property
    def _is_stopped(self) -> bool: ...
    @property
    def _is_whole(self) -> bool: ...
    def _become(self, fresh: SentenceStream, waiting: list[Waiting], last_came: bool) -> None: ...
    def _begin_sentence(self, state: SearchState, sentence: Sentence, frames: int, results: Results) -> None: ...
    def _end_sentence(self, results: Results, fired: int) -> None: ...
    def _latest(self, kind: type[Partial]) -> Partial: ...

class Round:
    def __init__(
        self,
        streams: list[SentenceStream],
        sentences: list[Sentence],
        kind: type[Partial],
        results: Results,
        later: set[int],
        lattices: Lattices | None,
        refused: dict[int, Partial],
        last: list[bool],
        inputs: Inputs,
        columns: int,
        confidences: ChunkConfidences | None,
    ) -> None: ...
    def __len__(self) -> int: ...
    def take_later(self, with_outputs: dict[int, Results]) -> None: ...
    def item(self, i: int) -> Partial: ...
    def texts(self) -> list[str]: ...

def taking(
    streams: list[SentenceStream],
) -> tuple[list[SearchState], list[Sentence], dict[int, str], bool, dict[ConfidenceMethod, list[int]], list[int]]: ...
