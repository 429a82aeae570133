"""Everything that a decoder needs to rescore with a large language model, checked once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary, ref

import numpy as np
import numpy.typing as npt

from arcbeam.core.errors import GraphError, UnsupportedError
from arcbeam.core.warn import warn
from arcbeam.ctc.options import DecoderOptions
from arcbeam.gpu.devices import resolve_device
from arcbeam.graph.new_words import first_new_word
from arcbeam.graph.symbols import is_far_beyond
from arcbeam.lm.kenlm import KenLM, case_hint
from arcbeam.lm.language_model import SENTENCE_END, SENTENCE_START, UNKNOWN_WORDS, LanguageModel
from arcbeam.lm.loading import as_language_model, as_large_model
from arcbeam.lm.no_model import no_model

if TYPE_CHECKING:
    import os

    from arcbeam.graph.graph import Graph
    from arcbeam.lm._kenlm import KenLmModel

LargeModel: TypeAlias = LanguageModel | KenLM
Labels: TypeAlias = npt.NDArray[np.uint32]

KEEPS_SMALL_COST = 0x80000000
SHOWN = 10

#: Options of a decoder that mean nothing without a large language model.
OPTIONS = (
    "lm_scale", "graph_lm_scale", "hypotheses_per_state", "unknown_words", "placement", "gpu_budget",
    "arc_cache",
)  # fmt: skip


class WordLabels(NamedTuple):
    """The labels of the graph's words in both models; with an open slot, the last one is for all new words."""

    large: Labels  # uint32[words]: the model's label (KenLM's number) of each output label; 0 if it lacks the word
    small: Labels  # uint32[words], as `large`
    ranks: Labels | None  # uint32[words], KenLM only: by number, <unk> and <s> first; its file types number differently

    @classmethod
    def find(cls, graph: Graph, large: LargeModel, small: LanguageModel, unknown_words: str) -> WordLabels:
        """Looks up all words; GraphError unless the graph was built with `small`, or if `large` lacks words."""
        has_none = small is no_model()
        if not has_none:
            _check_digest(graph, large, small)
        ids, words = _words_of(graph)
        small_labels, is_absent = _in_automaton(words, small)
        if has_none:
            small_labels[:], is_absent[:] = small.unknown_label, False
        absent = [words[i] for i in np.flatnonzero(is_absent).tolist()]
        if absent:
            raise GraphError(
                f"graph_language_model: it lacks {_listed(absent)} of the graph, so the graph was built with another "
                "one"
            )
        labels, is_absent = _in_kenlm(words, large) if isinstance(large, KenLM) else _in_automaton(words, large)
        absent = [words[i] for i in np.flatnonzero(is_absent).tolist()]
        if absent and unknown_words == "error":
            raise GraphError(
                f"language_model: it lacks {_listed(absent)} of the graph{case_hint(absent, large)}; "
                "unknown_words='unk' scores them as its unknown word"
                + ("" if has_none else ", 'small' leaves them the score of the graph's own language model")
            )
        # What a transducer writes may be any letters, but some of it is words.
        if len(absent) * 2 > len(words) and (not has_none or len(absent) == len(words) > 1):
            warn(f"language_model: it lacks {_listed(absent)}, most of the graph's words{case_hint(absent, large)}")
        unknown = large.unknown_label if isinstance(large, LanguageModel) else 0
        unknown |= KEEPS_SMALL_COST if unknown_words == "small" else 0
        ranks = _ranks(ids, labels, large.model.start_word) if isinstance(large, KenLM) else None
        labels = np.where(is_absent, np.uint32(unknown), labels)
        if graph.open_slot is not None:
            # All new words of a request are one: the unknown word of both models, if they have one.
            has_unknown = small.unknown_label and (isinstance(large, KenLM) or large.unknown_label)
            unknown |= 0 if has_unknown else KEEPS_SMALL_COST
            ids, labels = np.append(ids, first_new_word(graph)), np.append(labels, np.uint32(unknown))
            small_labels = np.append(small_labels, np.uint32(small.unknown_label))
        return cls(_spread(ids, labels), _spread(ids, small_labels), ranks)


class Rescoring:
    """A large language model that replaces a graph's own: both models, the graph's words in each, factors on costs."""

    def __init__(
        self,
        graph: Graph,
        large: LargeModel,
        small: LanguageModel,
        options: DecoderOptions,
        words: WordLabels | None = None,
    ) -> None:
        self.large, self.small = large, small
        self.check_files()
        self.large_scale = float(options.lm_scale)
        self.small_scale = _small_scale(graph, options.graph_lm_scale)
        words = words or WordLabels.find(graph, large, small, options.unknown_words)
        self.large_labels, self.small_labels, self.ranks = words

    @property
    def kenlm(self) -> KenLmModel | None:
        """The large model, if it is KenLM's."""
        return self.large.model if isinstance(self.large, KenLM) else None

    def check_files(self) -> None:
        """FormatError if a file that a model is mapped from has been changed in place."""
        self.large.check_file()
        self.small.check_file()

    @property
    def nbytes(self) -> int:
        """Bytes of both models."""
        large = self.large.nbytes if isinstance(self.large, KenLM) else self.large.info().bytes
        return large + self.small.info().bytes


def rescoring_of_decoder(
    graph: Graph,
    large: LargeModel | str | os.PathLike[str] | None,
    small: LanguageModel | str | os.PathLike[str] | None,
    options: DecoderOptions,
) -> Rescoring | None:
    """The rescoring of a decoder, None without a large model; ValueError for options and models that lack another."""
    if large is None:
        if small is not None:
            raise ValueError("graph_language_model: this needs a language_model, too")
        changed = [name for name in OPTIONS if getattr(options, name) != getattr(DecoderOptions, name)]
        if changed:
            raise ValueError(
                f"{', '.join(changed)}: this needs a language_model, the large one that rescores; the scale of the "
                "model in a graph is an option of its build, and acoustic_scale weighs against it"
            )
        return None
    if small is None:
        raise ValueError(
            "language_model: give graph_language_model, too, the model that the graph was built with "
            "(LanguageModel.build of the same ARPA): its scores are in the graph and have to be subtracted"
        )
    large, small = as_large_model("language_model", large), as_language_model("graph_language_model", small)
    return Rescoring(graph, large, small, options)


# The words of each graph in the models that have rescored a lattice of it last.
_LAST_WORDS: WeakKeyDictionary[Graph, tuple[ref[LargeModel], ref[LanguageModel], str, WordLabels]]
_LAST_WORDS = WeakKeyDictionary()


def rescoring_of_lattices(graph: Graph, large: LargeModel, small: LanguageModel, options: DecoderOptions) -> Rescoring:
    """The rescoring of lattices, which come one by one: words are looked up when the graph or a model differs."""
    known = _LAST_WORDS.get(graph)
    if known is not None and (known[0](), known[1](), known[2]) == (large, small, options.unknown_words):
        return Rescoring(graph, large, small, options, known[3])
    words = WordLabels.find(graph, large, small, options.unknown_words)
    _LAST_WORDS[graph] = ref(large), ref(small), options.unknown_words, words
    return Rescoring(graph, large, small, options, words)


def rescoring_device(device: str, placement: str, large: LargeModel) -> int | None:
    """The ordinal of the GPU that rescores, None for the CPU; UnsupportedError if the placement does not fit."""
    if device == "auto" and placement == "cpu" and not isinstance(large, KenLM):
        device = "cpu"
    ordinal = resolve_device(device)
    if ordinal is None:
        check_placement_on_cpu(placement)
    elif isinstance(large, KenLM) and placement not in ("auto", "cpu"):
        raise UnsupportedError(
            f"placement: expected 'auto' or 'cpu', because KenLM's files are looked up on the CPU, got {placement!r}; "
            "for other placements give an arcbeam.LanguageModel, which arcbeam build-lm makes from the ARPA"
        )
    elif placement == "cpu" and not isinstance(large, KenLM):
        raise UnsupportedError(
            f"placement: 'cpu' with a GPU (device={device!r}) needs an arcbeam.KenLM, but language_model is an "
            "arcbeam.LanguageModel; give an arcbeam.KenLM, or use 'host'"
        )
    return ordinal


def check_placement_on_cpu(placement: str) -> None:
    """UnsupportedError for the placements of a GPU."""
    if placement not in ("auto", "cpu"):
        raise UnsupportedError(f"placement: expected 'auto' or 'cpu' when the CPU decodes, got {placement!r}")


def _small_scale(graph: Graph, given: float | None) -> float:
    """The scale that the graph records, or else the given one, or 1; ValueError if they differ."""
    known: Any = graph.meta.get("lm_scale")
    if given is not None and known is not None and float(given) != float(known):
        raise ValueError(f"graph_lm_scale: expected {known:g}, which the graph was built with, got {given!r}")
    return float(known if known is not None else 1.0 if given is None else given)


def _check_digest(graph: Graph, large: LargeModel, small: LanguageModel) -> None:
    known = graph.meta.get("lm_digest")
    if known is None:
        warn(
            "the graph does not record which language model it was built with, so graph_language_model cannot be "
            "checked: if it is another one, the scores are wrong"
        )
    elif known != small.digest:
        hint = "give the ARPA of build-graph --lm or Graph.build(lm=...), or what build-lm made of it"
        if not isinstance(large, KenLM) and large.digest == known:
            hint = "that one was given as language_model= (--language-model): exchange the two"
        raise GraphError(
            f"graph_language_model: expected the model that the graph was built with (digest {known}), got another "
            f"({small.digest}); {hint}"
        )


def _words_of(graph: Graph) -> tuple[npt.NDArray[np.intp], list[str]]:
    """Output labels that some arc has, and their words."""
    if graph.word_symbols is None:
        raise GraphError("language_model: the graph has no word symbols, so its words cannot be found in the model")
    most = int(graph.words.max(initial=0))
    if is_far_beyond(most, len(graph.word_symbols) + graph.num_arcs):
        raise GraphError(
            f"language_model: expected words numbered from 1, because the engines make a table of them, got the output "
            f"label {most} in a graph of {len(graph.word_symbols)} words"
        )
    marks = np.zeros(most + 1, bool)
    marks[graph.words] = True
    marks[0] = False
    ids = np.flatnonzero(marks)
    return ids, [graph.word_symbols[i] for i in ids.tolist()]


def _in_automaton(words: list[str], model: LanguageModel) -> tuple[Labels, npt.NDArray[np.bool_]]:
    """Label of each word, and which of them the model lacks."""
    labels = np.array([model.label(word) or 0 for word in words], np.uint32)
    return labels, labels == 0


def _in_kenlm(words: list[str], model: KenLM) -> tuple[Labels, npt.NDArray[np.bool_]]:
    """The same; the model's own unknown word is number 0, too."""
    labels = model.indices(words)
    labels[np.array([word in (SENTENCE_START, SENTENCE_END) for word in words], bool)] = 0
    return labels, (labels == 0) & np.array([word not in UNKNOWN_WORDS for word in words], bool)


def _spread(ids: npt.NDArray[np.intp], labels: Labels) -> Labels:
    """Labels by output label of the graph."""
    spread = np.zeros(int(ids[-1]) + 1 if len(ids) else 1, np.uint32)
    spread[ids] = labels
    return spread


def _ranks(ids: npt.NDArray[np.intp], numbers: Labels, start_word: int) -> Labels:
    ranks = np.zeros(max(start_word, int(numbers.max(initial=0))) + 1, np.uint32)
    ranks[numbers[::-1]] = ids[::-1] + 1  # of words of one number the first
    ranks[start_word], ranks[0] = 1, 0
    return ranks


def _listed(words: list[str]) -> str:
    shown = ", ".join(map(repr, words[:SHOWN])) + (", ..." if len(words) > SHOWN else "")
    return f"{len(words):,} word{'s'[: len(words) != 1]} ({shown})"
