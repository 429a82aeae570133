from collections.abc import Iterable
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

class ArpaReader:
    def __new__(cls, words: Iterable[bytes] | None, name: object, most_bytes: int) -> Self: ...
    @property
    def ngrams_read(self) -> int: ...
    def feed(self, block: Buffer) -> None: ...
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
