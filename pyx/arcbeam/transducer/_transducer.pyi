from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from arcbeam.core._pooled_engine import PooledEngine
from arcbeam.core.confidence import Measure
from arcbeam.transducer.options import TransducerOptions
from arcbeam.transducer.token_automaton import Fusions, TokenAutomaton

def available_kernels() -> list[str]: ...

class Network:
    def __new__(
        cls,
        arrays: Mapping[str, Any],
        *,
        activation: str,
        relu: bool,
        groups: int,
        units: int,
        context: int,
        rounds: bool = False,
        kernels: str | None = None,
    ) -> Self: ...
    @property
    def kernels(self) -> str: ...
    @property
    def nbytes(self) -> int: ...

class CpuEngine(PooledEngine):
    def __new__(
        cls,
        network: Network,
        *,
        blank: int,
        max_symbols: int,
        durations: Sequence[int],
        frame_looping: bool,
        confidence: Measure | None,
        threads: int,
        alphas: tuple[float, float] = (0.0, 0.0),
        beam: TransducerOptions | None = None,
        lodr: TokenAutomaton | None = None,
    ) -> Self: ...
    def work(self) -> list[dict[str, int]]: ...
    def decode(
        self,
        utterances: npt.NDArray[np.int64],
        states: list[Any],
        on_host: bool = True,
        fusions: Fusions = None,
        lattice: bool = False,
    ) -> tuple[list[Any], list[tuple[int, ...]]]: ...

def apply(function: str, x: npt.NDArray[np.float32], kernels: str | None = None) -> npt.NDArray[np.float32]: ...
def multiply(
    weight: npt.NDArray[np.float32],
    bias: npt.NDArray[np.float32] | None,
    x: npt.NDArray[np.float32],
    kernels: str | None = None,
) -> npt.NDArray[np.float32]: ...
def lstm_step(
    gates_from_input: npt.NDArray[np.float32],
    gates_recurrent: npt.NDArray[np.float32],
    cell: npt.NDArray[np.float32],
    kernels: str | None = None,
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]: ...
