"""One interface for every decoder that is compared: see :class:`Adapter`.

A module here that has ``ADAPTER``, its class, is an adapter; it imports its package at the top. Beside them lies what
adapters need: `gpu`, `lexicon_task`, and of NeMo `nemo_sources`, `nemo_trees` and `nemo_transducer`. Where the package
or the device is missing, importing the module (or making the adapter) raises ImportError, :class:`Unavailable` for a
device; an experiment then has a row that says so, see `benchmarks.tasks.contest`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from benchmarks.data.graphs import GraphFiles


class Unavailable(ImportError):
    """The adapter's package is there, but it cannot be used on this machine; the message says why."""


@dataclass(frozen=True)
class SearchOptions:
    """Settings every contender of a comparison gets alike; each adapter takes those that its decoder has.

    Scores are natural logs. A decoder that does not scale its input by itself gets log-probs that are scaled already
    (in ``prepare``), so `lm_weight` means the same to all.
    """

    beam: float = 17.0
    max_active: int = 10_000
    acoustic_scale: float = 1.0
    beam_size: int = 2_500  # hypotheses kept by decoders whose beam is a number of hypotheses
    beam_size_token: int | None = None  # tokens that a hypothesis may take in a frame; None: all
    beam_threshold: float = 25.0  # those decoders' own cut-off
    lm_weight: float = 1.0
    word_score: float = 0.0  # added for each word
    lattice_beam: float = 8.0  # of decoders that make a lattice
    batch: int = 200  # utterances at a time, for decoders that are given batches

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
    """A decoder. ``prepare`` and ``answers`` are never timed; ``decode`` is.

    name : its name in tables
    device : "cpu" or "cuda"
    settings : what of the options it uses, and what it uses besides, as tables show it

    It is made as ``make("name")(files, options, **more)``: `files` is a :class:`benchmarks.data.graphs.GraphFiles`,
    which has the graph, but also the tokens, the lexicon and the language model of decoders that need no graph;
    ``threads`` is the one extra setting that CPU decoders share.

    An adapter of a GPU decoder may have ``look_into(arrays)``, too: what ``prepare`` returns, made of log-probs that
    are on the GPU already, one array an utterance, as an acoustic model leaves them. End-to-end experiments time it
    with the decoder; without it they time the copy to the host and ``prepare``.

    One that gives several answers has ``alternatives(decoded)``: of each utterance the distinct texts, best first.
    """

    name: ClassVar[str]
    device: ClassVar[str]
    settings: str

    def __init__(self, files: "GraphFiles", options: SearchOptions) -> None: ...

    def prepare(self, utterances: Sequence[npt.NDArray[np.floating]]) -> Any:
        """Log-probs [frames, columns] of each utterance, in the form and on the device where the decoder takes them."""

    def decode(self, prepared: Any) -> Any:
        """Decodes all of them to words; returns when the words are on the host."""

    def answers(self, decoded: Any) -> list[Answer]:
        """What ``decode`` returned, in the common form and in the order of the utterances."""


def distinct(texts: Iterable[str]) -> list[str]:
    """Each text once, where it comes first."""
    return list(dict.fromkeys(texts))


def missing(name: str) -> str | None:
    """Why the adapter cannot be used here, or None."""
    try:
        make(name)
    except (ImportError, OSError) as error:  # OSError: a shared library that cannot be loaded
        return why(error)
    return None


def why(error: BaseException) -> str:
    """One line for a table."""
    return " ".join(str(error).split()) or type(error).__name__


def make(name: str) -> Any:
    """The class of an adapter by the name of its module. Raises ImportError where its package is not installed."""
    import importlib

    return importlib.import_module(f"benchmarks.adapters.{name}").ADAPTER
