"""One interface for every decoder that is compared: see :class:`Adapter`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class SearchOptions:
    """Settings every contender of a comparison gets alike."""

    beam: float = 17.0
    max_active: int = 10_000
    acoustic_scale: float = 1.0

    def __str__(self) -> str:
        return f"beam {self.beam:g}, max_active {self.max_active:,}, acoustic scale {self.acoustic_scale:g}"


@dataclass(frozen=True)
class Answer:
    """What a decoder said of one utterance.

    text : words joined by a space
    cost : negative natural log of the path, final weight included
    reached_final : whether it ends in a final state
    columns : the column that the path reads in each frame
    word_ids : its output labels
    """

    text: str
    cost: float
    reached_final: bool
    columns: Sequence[int] = ()
    word_ids: Sequence[int] = ()


class Adapter(Protocol):
    """A decoder over a graph. ``prepare`` and ``answers`` are never timed; ``decode`` is."""

    name: str

    def prepare(self, utterances: Sequence[npt.NDArray[np.floating]]) -> Any:
        """Log-probs [frames, columns] of each utterance, in the form the decoder takes."""

    def decode(self, prepared: Any) -> Any:
        """Decodes all of them to words."""

    def answers(self, decoded: Any) -> list[Answer]:
        """What ``decode`` returned, in the common form."""


def missing(name: str) -> str | None:
    """Why the adapter cannot be used here, or None."""
    try:
        make(name)
    except ImportError as error:
        return str(error)
    return None


def make(name: str) -> Any:
    """The class of an adapter by the name of its module. Raises ImportError where its package is not installed."""
    import importlib

    return importlib.import_module(f"benchmarks.adapters.{name}").ADAPTER
