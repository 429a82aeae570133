from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import numpy.typing as npt

from arcbeam.core.confidence import Measure
from arcbeam.gpu._cuda import Context
from arcbeam.gpu._launch import Stream
from arcbeam.transducer.options import TransducerOptions
from arcbeam.transducer.states import State
from arcbeam.transducer.token_automaton import Fusions, TokenAutomaton

class CudaEngine:
    @property
    def context(self) -> Context: ...
    @property
    def stream(self) -> Stream: ...
    def __init__(
        self,
        weights: dict[str, Any],
        ordinal: int,
        *,
        precision: str,
        tokens: int,
        units: int,
        features: int,
        joint: int,
        layers: int,
        context: int,
        relu: bool,
        activation: str,
        blank: int,
        max_symbols: int,
        durations: Sequence[int],
        frame_looping: bool,
        confidence: Measure | None,
        alphas: tuple[float, float],
        beam: TransducerOptions | None = None,
        lodr: TokenAutomaton | None = None,
    ) -> None: ...
    def decode(
        self,
        utterances: npt.NDArray[np.int64],
        states: list[State | None],
        on_host: bool,
        fusions: Fusions = None,
        lattice: bool = False,
    ) -> tuple[list[tuple[Callable[[int], tuple[Any, ...]], int]], list[tuple[int, ...]]]: ...
    def decoding_lock(self) -> AbstractContextManager[Any]: ...
    def finished(self) -> int: ...
    def memory(self) -> dict[str, int]: ...
    def release(self) -> None: ...
