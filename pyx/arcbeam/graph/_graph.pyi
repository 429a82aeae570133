from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

_Columns = dict[str, npt.NDArray[Any]]
_Symbols = tuple[list[int], list[str]] | None

STATE_DTYPE: np.dtype[Any]
TARGET_DTYPE: np.dtype[Any]
RAW_ARC_DTYPE: np.dtype[Any]
COLUMNS: tuple[str, ...]
MOST_COLUMNS: int
MOST_STATES: int
MOST_ARCS: int

def new_columns(
    num_states: int,
    num_arcs: int,
    states: npt.NDArray[Any] | None = None,
    finals: npt.NDArray[np.float32] | None = None,
) -> _Columns: ...
def compile_arrays(
    arcs: tuple[npt.NDArray[Any], ...],
    num_states: int,
    start: int,
    finals: npt.NDArray[np.float32],
    label_to_column: npt.NDArray[np.int32] | None,
    num_columns: int | None,
) -> tuple[_Columns, int]: ...
def vector_body(
    arcs: tuple[npt.NDArray[Any], ...], num_states: int, finals: npt.NDArray[np.float32]
) -> npt.NDArray[np.uint8]: ...
def is_openfst(data: Buffer) -> bool: ...
def read_openfst(
    data: Buffer,
    source: object,
    label_to_column: npt.NDArray[np.int32] | None,
    num_columns_of: Callable[[_Symbols], int | None],
) -> tuple[_Columns, int, int, _Symbols, _Symbols]: ...
def validate(graph: Mapping[str, Any], start: int, max_depth: int, num_columns: int, source: object) -> None: ...
def unknown_word(graph: Mapping[str, Any], known: npt.NDArray[np.uint8]) -> tuple[int, int, int] | None: ...
def count_arcs(graph: Mapping[str, Any]) -> dict[str, int]: ...
