from collections.abc import Sequence
from typing import Any, Self

from arcbeam.core._pooled_engine import PooledEngine
from arcbeam.lm._kenlm import KenLmModel

KINDS: dict[str, int]

class PrefixEngine(PooledEngine):
    def __new__(
        cls,
        *,
        symbols: Sequence[tuple[int, str, bytes, bytes, bool]],
        lm: KenLmModel | None,
        vocabulary: list[bytes],
        threads: int,
    ) -> Self: ...
    def decode(
        self,
        batch: list[tuple[Any, Any, Any]],
        *,
        alpha: float,
        beta: float,
        unknown: float,
        to_natural: float,
        boundary: bool,
        beam_width: int,
        beam_prune: float,
        prune_history: bool,
        nbest: int,
        hotwords: list[bytes],
        hotword_weight: float,
        start: bytes,
    ) -> list[list[tuple[str, list[tuple[int, int]], float, float, bytes]]]: ...
