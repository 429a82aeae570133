"""What a decoder needs to rescore with a large language model, checked once."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from arcbeam.errors import GraphError, UnsupportedError
from arcbeam.lm_automaton import LanguageModel
from arcbeam.options import DecoderOptions

if TYPE_CHECKING:
    from arcbeam.graph import Graph

KEEPS_SMALL_COST = 0x80000000
SHOWN = 10

#: Options of a decoder that mean nothing without a large language model.
OPTIONS = (
    "lm_scale", "graph_lm_scale", "hypotheses_per_state", "lookup_margin", "unknown_words", "placement", "gpu_budget",
    "arc_cache",
)  # fmt: skip


class Rescoring:
    """A large language model in the place of a graph's own: both models, and the graph's words in each.

    Attributes
    ----------
    large, small : LanguageModel
        The small one is the model that the graph was built with.
    large_labels, small_labels : uint32 [words]
        Label of each output label of the graph; 0 where the model has no word for it.
    large_scale, small_scale : float
        Factors on the costs.
    """

    def __init__(self, graph: Graph, large: LanguageModel, small: LanguageModel, options: DecoderOptions) -> None:
        for name, model in (("language_model", large), ("graph_language_model", small)):
            if not isinstance(model, LanguageModel):
                raise TypeError(f"{name}: expected an arcbeam.LanguageModel, got {type(model).__name__}")
        self.large, self.small = large, small
        self.large_scale = float(options.lm_scale)
        self.small_scale = _small_scale(graph, options.graph_lm_scale)
        _check_digest(graph, small)
        ids, words = _words_of(graph)
        self.small_labels = _labels(ids, words, small)
        absent = _absent(words, self.small_labels[ids])
        if absent:
            raise GraphError(
                f"graph_language_model: it lacks {_listed(absent)} of the graph, so the graph was built with another "
                "one"
            )
        self.large_labels = _labels(ids, words, large)
        absent = _absent(words, self.large_labels[ids])
        if absent and options.unknown_words == "error":
            raise GraphError(
                f"language_model: it lacks {_listed(absent)} of the graph; unknown_words='unk' scores them as its "
                "unknown word, 'small' leaves them the score of the graph's own language model"
            )
        unknown = large.unknown_label | (KEEPS_SMALL_COST if options.unknown_words == "small" else 0)
        self.large_labels[ids] = np.where(self.large_labels[ids] == 0, unknown, self.large_labels[ids])

    def check_files(self) -> None:
        """FormatError if a file that a model is mapped from has been changed in place."""
        self.large.check_file()
        self.small.check_file()

    @property
    def nbytes(self) -> int:
        """Bytes of both models."""
        return self.large.info().bytes + self.small.info().bytes


def check_placement_on_cpu(placement: str) -> None:
    """UnsupportedError for the placements of a GPU."""
    if placement not in ("auto", "cpu"):
        raise UnsupportedError(f"placement: expected 'auto' or 'cpu' where a CPU decodes, got {placement!r}")


def _small_scale(graph: Graph, given: float | None) -> float:
    """The scale that the graph says, or else the given one, or 1; ValueError where they differ."""
    known: Any = graph.meta.get("lm_scale")
    if given is not None and known is not None and float(given) != float(known):
        raise ValueError(f"graph_lm_scale: expected {known:g}, which the graph was built with, got {given!r}")
    return float(known if known is not None else 1.0 if given is None else given)


def _check_digest(graph: Graph, small: LanguageModel) -> None:
    known = graph.meta.get("lm_digest")
    if known is None:
        warnings.warn(
            "the graph does not say which language model it was built with, so graph_language_model cannot be checked: "
            "with another one the scores are wrong",
            stacklevel=4,
        )
    elif known != small.digest:
        raise GraphError(
            f"graph_language_model: expected the model that the graph was built with (digest {known}), got another "
            f"({small.digest})"
        )


def _words_of(graph: Graph) -> tuple[npt.NDArray[np.intp], list[str]]:
    """Output labels that some arc has, and their words."""
    if graph.word_symbols is None:
        raise GraphError("language_model: the graph has no word symbols, so its words cannot be found in the model")
    marks = np.zeros(int(graph.words.max(initial=0)) + 1, bool)
    marks[graph.words] = True
    marks[0] = False
    ids = np.flatnonzero(marks)
    return ids, [graph.word_symbols[i] for i in ids.tolist()]


def _labels(ids: npt.NDArray[np.intp], words: list[str], model: LanguageModel) -> npt.NDArray[np.uint32]:
    labels = np.zeros(int(ids[-1]) + 1 if len(ids) else 1, np.uint32)
    labels[ids] = [model.label(word) or 0 for word in words]
    return labels


def _absent(words: list[str], labels: npt.NDArray[np.uint32]) -> list[str]:
    return [words[i] for i in np.flatnonzero(labels == 0).tolist()]


def _listed(words: list[str]) -> str:
    shown = ", ".join(map(repr, words[:SHOWN])) + (", ..." if len(words) > SHOWN else "")
    return f"{len(words):,} word{'s'[: len(words) != 1]} ({shown})"
