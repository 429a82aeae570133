"""The interface of a decoder's engine, on the CPU or a GPU."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from arcbeam.gpu._launch import Stream

P = ParamSpec("P")
Found = TypeVar("Found", covariant=True)
Table: TypeAlias = npt.NDArray[np.int64]
"""int64[batch, 4]: address, row stride in values, frames, and whether the values are float16."""
Bad: TypeAlias = tuple[int, ...]
"""Utterance, frame and, if they are known, column and value of what cannot be decoded."""


class Engine(Protocol[P, Found]):
    """Decodes batches; Python threads take turns at it. `P` is what `decode` takes, and `Found` what it returns."""

    def decode(self, *arguments: P.args, **options: P.kwargs) -> Found:
        """Decodes a batch."""
        ...

    def decoding_lock(self) -> AbstractContextManager[Any]:
        """The lock to decode under; a thread that holds it may take it again."""
        ...

    def finished(self) -> int:
        """How many utterances of the batch in progress are finished, for another thread; 0 without a batch."""
        ...

    def memory(self) -> dict[str, int]:
        """Bytes by purpose."""
        ...

    def release(self) -> None:
        """Gives back the memory that grows with batches."""
        ...

    @property
    def stream(self) -> Stream | None:
        """The stream of a GPU that reads batches; None on a CPU."""
        ...
