from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Columns = dict[str, npt.NDArray[Any]]
Symbols = tuple[list[int], list[str]] | None

STATE_DTYPE: np.dtype[Any]
TARGET_DTYPE: np.dtype[Any]
RAW_ARC_DTYPE: np.dtype[Any]
COLUMNS: tuple[str, ...]
MOST_COLUMNS: int
MOST_STATES: int
MOST_ARCS: int

def compile_arrays(
    arcs: tuple[npt.NDArray[Any], ...],
    num_states: int,
    start: int,
    finals: npt.NDArray[np.float32],
    label_to_column: npt.NDArray[np.int32] | None,
    num_columns: int | None,
) -> tuple[Columns, int]: ...
def vector_body(
    arcs: tuple[npt.NDArray[Any], ...], num_states: int, finals: npt.NDArray[np.float32]
) -> npt.NDArray[np.uint8]: ...
def is_openfst(data: Any) -> bool: ...
def read_openfst(
    data: Any,
    source: object,
    label_to_column: npt.NDArray[np.int32] | None,
    num_columns_of: Callable[[Symbols], int | None],
) -> tuple[Columns, int, int, Symbols, Symbols]: ...
def validate(graph: Mapping[str, Any], start: int, max_depth: int, num_columns: int, source: object) -> None: ...
def unknown_word(graph: Mapping[str, Any], known: npt.NDArray[np.uint8]) -> tuple[int, int, int] | None: ...
def count_arcs(graph: Mapping[str, Any]) -> dict[str, int]: ...
