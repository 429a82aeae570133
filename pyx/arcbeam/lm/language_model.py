"""Back-off language models as automata: for rescoring, and for scoring sentences."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from arcbeam.core.calls import lists_options
from arcbeam.core.errors import FormatError
from arcbeam.core.show import shown_as
from arcbeam.core.warn import warn
from arcbeam.files.kinds import other_kind
from arcbeam.files.section_file import Mapped
from arcbeam.lm import lm_file
from arcbeam.lm._language_model import walk

if TYPE_CHECKING:
    from arcbeam.recipe.progress import Progress

StrPath: TypeAlias = str | os.PathLike[str]

UNKNOWN_WORDS = ("<unk>", "<UNK>")
SENTENCE_START, SENTENCE_END = "<s>", "</s>"


@dataclass(frozen=True)
class WordScore:
    """The score of one word of a sentence in a language model.

    Attributes
    ----------
    word : str
        ``</s>`` for the end of the sentence.
    log_prob : float
        Natural log of its probability after the words before it.
    ngram : int
        Length of the n-gram that gave this probability, including the word.
    is_unknown : bool
        Whether the word is not in the model.
    """

    word: str
    log_prob: float
    ngram: int
    is_unknown: bool


@dataclass(frozen=True)
class LanguageModelInfo:
    """Size and shape of a language model; ``str()`` of it is a few lines for people.

    Attributes
    ----------
    order : int
        The words of the longest n-grams.
    words : int
        How many the model has, without ``<s>`` and ``</s>``.
    ngrams : tuple of int
        How many the ARPA has of each length, from 1.
    states, arcs : int
        How many the automaton has that the n-grams have become.
    bytes, index_bytes : int
        Size of the model, and of the part that finds the arc of a word (labels, first arcs, back-off states).
    digest : str
        Of the ARPA, by which a graph recognises the model that it was built with.
    notes : tuple of str
        What was odd about the file from which the model was built.
    """

    order: int
    words: int
    ngrams: tuple[int, ...]
    states: int
    arcs: int
    bytes: int
    index_bytes: int
    digest: str
    notes: tuple[str, ...]

    def __str__(self) -> str:
        lines = [
            f"{self.order}-gram model of {self.words:,} words",
            "n-grams: " + " / ".join(f"{n:,}" for n in self.ngrams),
            f"{self.states:,} states, {self.arcs:,} arcs",
            f"{self.bytes / 1e6:,.1f} MB, {self.index_bytes / 1e6:,.1f} MB ({self.index_bytes / self.bytes:.1%}) of it "
            "the index",
            f"digest of the ARPA: {self.digest}",
        ]
        return "\n".join(lines + [f"note: {note}" for note in self.notes])


class LanguageModel:
    """A back-off n-gram language model of any order; immutable, safe to share among threads and decoders.

    A model is made by `build` or `load`. A state is a history of words; the model keeps the histories that an n-gram
    continues. ``docs/design/large-lms.md`` has the layout. Costs are negative natural logs, each rounded to float32
    once.

    Attributes
    ----------
    order : int
        Longest n-gram.
    num_states, num_arcs : int
    start : int
        The state at the beginning of a sentence; 0 is the empty history.
    end_label : int
        The label of ``</s>``; words have the labels 1 to ``end_label - 1``.
    digest : str
        Digest of the text of the ARPA file.
    notes : tuple of str
        The oddities of that file.
    columns : dict of str to array
        The columns of ``docs/design/large-lms.md`` by name.
    about : dict
        The facts that are known about them.
    arpa : str or None
        The path of the ARPA that `build` read; None for a model from elsewhere.
    """

    @lists_options()
    def __init__(
        self, columns: dict[str, npt.NDArray[Any]], about: dict[str, Any], mapped: Mapped | None = None
    ) -> None:
        for array in columns.values():
            array.flags.writeable = False
        self.columns = columns
        self.about = about
        self.arpa: str | None = None
        self._map = mapped
        self.order = len(columns["lengths"]) - 1
        self.num_states = len(columns["backoff.weights"])
        self.num_arcs = len(columns["arcs"])
        self.start = int(about["start"])
        self.end_label = int(about["num_labels"])
        self.digest = str(about["digest"])
        self.notes: tuple[str, ...] = tuple(about["notes"])

    @classmethod
    @lists_options()
    def build(
        cls, arpa: StrPath, *, progress: Progress | bool | None = None, max_bytes: int | str | None = None
    ) -> Self:
        """Builds a model from an ARPA file: plain, gzip, xz or bzip2, of any order.

        N-grams whose history or suffix the file lacks are still taken in, as in KenLM. Anything odd but usable gives a
        warning and is kept in `notes`: no ``<unk>`` (a word that is not in the model then has a probability of 1e-100),
        probabilities that do not sum to 1, histories that are missing, ``<s>`` within an n-gram.

        Parameters
        ----------
        arpa : path
        progress : callable or bool, optional
            Called with a `arcbeam.recipe.progress.BuildEvent` when a step begins and ends. True writes lines to stderr,
            None does so if that is a terminal, and False is silent.
        max_bytes : int, str or None
            Bytes, or a size such as ``"20GiB"``, that the text of a packed file may have. None: 20 times the size of
            the file, but at least 32 MiB.

        Raises
        ------
        FormatError
            The file breaks the format, has a probability above 1, or lacks ``<s>`` or ``</s>``; the message names the
            line. Or its packed form is damaged, or unpacks to more than `max_bytes`.
        OSError
            The file cannot be read.
        """
        from arcbeam.recipe import backoff_model
        from arcbeam.recipe.progress import Reporter

        try:
            columns, about = backoff_model.read(arpa, Reporter(progress), max_bytes)
        except FormatError:
            got = other_kind(arpa, "ARPA", "packed")
            if got is None:
                raise
            raise FormatError(f"{os.fspath(arpa)}: expected an ARPA language model, got {got}") from None
        for note in about["notes"]:
            warn(f"{arpa}: {note}")
        model = cls(columns, about)
        model.arpa = os.path.abspath(arpa)
        return model

    @classmethod
    @lists_options()
    def load(cls, path: StrPath, *, in_memory: bool = False) -> Self:
        """Loads a model that `save` wrote; all of it is read and checked once.

        Parameters
        ----------
        path : path
        in_memory : bool
            Copy the file into memory. Otherwise it is memory-mapped: it takes no memory of its own, other processes
            share it, and it must not be changed in place while the model is used (`save` replaces files and never does
            that). If the file is changed all the same, the next use raises a FormatError; a change during a search may
            end the process, unless the file just shrinks.

        Raises
        ------
        FormatError
            The file is not a language model, or is truncated, corrupted, or of another version.
        OSError
            The file cannot be read.
        """
        columns, about, mapped = lm_file.read(path)
        if not in_memory:
            return cls(columns, about, mapped)
        columns = {name: array.copy() for name, array in columns.items()}
        mapped.check()
        return cls(columns, about)

    def save(self, path: StrPath) -> None:
        """Writes the model: versioned, checksummed, to be memory-mapped by `load`.

        The file appears under its name only when it is complete.

        Warns
        -----
        UserWarning
            The name is one of another format, ``.arpa`` or ``.fst``.
        """
        self.check_file()
        lm_file.write(path, self.columns, self.about, self.check_file)
        if (name := os.fsdecode(path)).lower().endswith((".arpa", ".fst")):
            warn(
                f"path: save writes a language model of arcbeam, and {name} is a name of another format, whose tools "
                "cannot read it; a usual name is 4gram.lm"
            )

    def info(self) -> LanguageModelInfo:
        """Size and shape; ``print(model.info())`` shows them."""
        return LanguageModelInfo(
            order=self.order,
            words=self.end_label - 1,
            ngrams=tuple(self.about["ngrams"]),
            states=self.num_states,
            arcs=self.num_arcs,
            bytes=sum(array.nbytes for array in self.columns.values()),
            index_bytes=sum(self.columns[name].nbytes for name in lm_file.INDEX),
            digest=self.digest,
            notes=self.notes,
        )

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The words in the order of their labels, from label 1."""
        text, ends = self.columns["words.text"].tobytes(), self.columns["words.ends"].tolist()
        self.check_file()
        return tuple(text[b:e].decode("utf-8", "replace") for b, e in zip([0, *ends], ends, strict=False))

    @cached_property
    def _labels(self) -> dict[str, int]:
        return {word: label for label, word in enumerate(self.words, 1)}

    @cached_property
    def unknown_label(self) -> int:
        """The label of ``<unk>``; 0 if the model has none."""
        return next((self._labels[word] for word in UNKNOWN_WORDS if word in self._labels), 0)

    def label(self, word: str) -> int | None:
        """The label of a word; None if the model does not have it."""
        return self._labels.get(word)

    def __contains__(self, word: object) -> bool:
        return word in self._labels

    @lists_options()
    def score(self, sentence: str | Sequence[str], *, bos: bool = True, eos: bool = True) -> float:
        """Natural log of a sentence's probability, summed over its words in float64.

        Parameters
        ----------
        sentence : str or sequence of str
            Words; a str is split at white space. Words that the model lacks count as ``<unk>``.
        bos, eos : bool
            Whether the sentence begins after ``<s>``, and whether ``</s>`` is scored at its end.

        Raises
        ------
        TypeError
            Neither a str nor a sequence of them.
        ValueError
            ``<s>`` or ``</s>`` among the words.
        """
        costs, _, _ = self._walk(sentence, bos, eos)
        return -float(costs.sum(dtype=np.float64)) + 0.0

    @lists_options()
    def score_words(self, sentence: str | Sequence[str], *, bos: bool = True, eos: bool = True) -> list[WordScore]:
        """The score of each word; the last one is ``</s>`` if `eos` is set."""
        costs, sources, words = self._walk(sentence, bos, eos)
        lengths = np.searchsorted(self.columns["lengths"], sources, side="right")
        names = [*words, SENTENCE_END][: len(costs)]
        return [
            WordScore(word, -float(cost) + 0.0, int(length), word != SENTENCE_END and word not in self._labels)
            for word, cost, length in zip(names, costs, lengths, strict=True)
        ]

    def _walk(self, sentence: str | Sequence[str], bos: bool, eos: bool) -> tuple[Any, Any, list[str]]:
        words = words_of("sentence", sentence)
        for word in words:
            if word in (SENTENCE_START, SENTENCE_END):
                raise ValueError(f"expected words, got {word}; use bos and eos for the beginning and end of a sentence")
        unknown = self.unknown_label
        labels = [self._labels.get(word, unknown) for word in words] + [self.end_label] * eos
        self.check_file()
        costs, sources, _ = walk(self.columns, self.about, self.start if bos else 0, np.array(labels, np.uint32))
        return costs, sources, words

    @property
    def is_mapped(self) -> bool:
        """Whether the columns are in a mapped file."""
        return self._map is not None

    def check_file(self) -> None:
        """FormatError if the file that the model is mapped from has been changed in place."""
        if self._map is not None:
            self._map.check()

    def __repr__(self) -> str:
        sizes = f"{self.end_label - 1:,} words", f"{self.num_states:,} states", f"{self.num_arcs:,} arcs"
        mapped = () if self._map is None else (f"mapped from {self._map.path!r}",)
        return shown_as(f"LanguageModel of order {self.order}", *sizes, *mapped)

    def __reduce__(self) -> tuple[Any, ...]:
        # A mapped model is pickled as the path of its file: other processes map it, too, and share its memory.
        if self._map is not None:
            return load_same, (self._map.path, self.digest)
        return LanguageModel, (self.columns, self.about)


def words_of(name: str, sentence: str | Iterable[str]) -> list[str]:
    """The words of a sentence, a str or a sequence of words; anything else is a TypeError that names it `name`."""
    if isinstance(sentence, str):
        return sentence.split()
    if isinstance(sentence, (bytes, bytearray, memoryview, Mapping, Set)) or not isinstance(sentence, Iterable):
        raise TypeError(f"{name}: expected a str or a sequence of str, got {type(sentence).__name__}")
    words = list(sentence)
    for i, word in enumerate(words):
        if not isinstance(word, str):
            raise TypeError(f"{name}: expected a str or a sequence of str, got {type(word).__name__} as word {i}")
    return words


def load_same(path: str, digest: str) -> LanguageModel:
    """Loads a model for another process; FormatError if the file is no longer the same."""
    model = LanguageModel.load(path)
    if model.digest != digest:
        raise FormatError(f"{path}: expected the language model {digest}, got {model.digest}: the file was replaced")
    return model
