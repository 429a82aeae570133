from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

class ArpaReader:
    def __init__(self, words: Iterable[bytes] | None, name: object, most_bytes: int) -> None: ...
    @property
    def ngrams_read(self) -> int: ...
    def feed(self, block: Any) -> None: ...
    def finish(self) -> None: ...
    def tally(self) -> dict[str, Any]: ...
    def automaton(
        self, scale: float, word_cost: float, backoff_label: int
    ) -> tuple[
        npt.NDArray[np.uint32],
        npt.NDArray[np.uint32],
        npt.NDArray[np.uint32],
        npt.NDArray[np.float32],
        npt.NDArray[np.float32],
        int,
    ]: ...
    def language_model(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]: ...
