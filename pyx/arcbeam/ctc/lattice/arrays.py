"""What a lattice holds: links, tokens, and their scores by part, as arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from arcbeam.core.show import shown_as
from arcbeam.ctc.boost.boost import Boost
from arcbeam.ctc.boost.boosts import Boosts, boost_of, opened
from arcbeam.ctc.lattice._lattice import posteriors
from arcbeam.ctc.lattice._lattice_scores import boosts, deviations
from arcbeam.ctc.lattice._lattices import Lattices
from arcbeam.ctc.lattice.mbr_words import Frames, Spelled
from arcbeam.ctc.streams.sentences import STREAM_START, SentenceStart
from arcbeam.graph.openfst import EPSILON_COLUMN, symbol_bytes

if TYPE_CHECKING:
    from arcbeam.ctc.rescoring import Rescoring
    from arcbeam.graph.graph import Graph
    from arcbeam.graph.new_words import OpenGraph

Floats = npt.NDArray[np.float64]

# Attributes that a pickle has instead of the batch, the graph and the models.
DERIVED = (
    "_arrays", "columns", "words", "word_symbols", "label_symbols", "frame_shift", "acoustic_scale", "posterior_scale",
    "acoustic_scores", "graph_scores", "rescoring_scores", "boost_scores", "_final_parts", "text", "lattice_beam",
    "truncated", "first_frame", "_spelled", "_best_frames",
)  # fmt: skip

WITHOUT = ("_batch", "_index", "_found")  # attributes that a pickle lacks


@dataclass(frozen=True, eq=False)
class LatticeBatch:
    """What the lattices of a batch share."""

    graph: Graph
    lattices: Lattices
    frame_shift: float | None = None  # seconds a frame
    rescoring: Rescoring | None = None
    acoustic_scale: float = 1.0  # factor on the log-probs with which the lattices were made
    posterior_scale: float = 1.0  # factor on costs of which probabilities are made
    lattice_beam: float = math.inf  # cost above the best path up to which other paths are kept
    truncated: bool = False  # rescoring came to its limit
    boosts: Boosts = None  # of all utterances, or of each
    before: Mapping[int, SentenceStart] = field(default_factory=dict)  # before sentences of streams

    @cached_property
    def symbols(self) -> tuple[bytes, bytes]:
        """The graph's tables of labels and words, as OpenFst files contain them."""
        return symbols_of(self.graph)


class LatticeArrays:
    """The arrays of a lattice, read-only and made when they are first read."""

    def __init__(self, batch: LatticeBatch, index: int) -> None:
        self._batch = batch
        self._index = index

    @cached_property
    def _found(self) -> tuple[Lattices, int]:
        """The lattice in C++: lattices, and its place among them. One from a pickle is made anew from its arrays."""
        if "_batch" in self.__dict__:
            return self._batch.lattices, self._index
        return Lattices.of_arrays([self._arrays]), 0

    @cached_property
    def _arrays(self) -> dict[str, Any]:
        arrays = self._batch.lattices.arrays(self._index)
        for value in arrays.values():
            read_only(value)
        return arrays

    @property
    def _graph(self) -> Graph | OpenGraph:
        """The graph that the arcs belong to, with the new words of the boost."""
        return opened(self._batch.graph, self._boost)

    @property
    def links(self) -> npt.NDArray[Any]:
        """Structured [num_links]: ``source``, ``target`` (uint32, tokens), ``arc`` (uint32), ``slack`` (float32).

        Slack is a link's cost above that of the best way to its target. Ordered by (source, arc).
        """
        return self._arrays["links"]

    @property
    def states(self) -> npt.NDArray[np.uint32]:
        """uint32 [num_tokens]: the graph state of each token. A link's target has a larger number than its source."""
        return self._arrays["states"]

    @cached_property
    def steps(self) -> npt.NDArray[np.int32]:
        """int32 [num_tokens]: the number of the utterance's frames, or of the sentence's, before each token."""
        counts = np.diff(self._arrays["first_token"].astype(np.int64))
        return read_only(np.repeat(np.arange(len(counts), dtype=np.int32), counts))

    @cached_property
    def times(self) -> Floats | None:
        """float64 [num_tokens]: the times of tokens in seconds; None if the decoder was given no ``frame_shift``.

        A link lasts from the time of its source to that of its target. Seconds of a stream count from its beginning.
        """
        if self.frame_shift is None:
            return None
        return read_only((self.first_frame + self.steps.astype(np.int64)) * self.frame_shift)

    @cached_property
    def columns(self) -> npt.NDArray[np.uint16]:
        """uint16 [num_links]: the column that each link reads; 0xffff for none."""
        return read_only(self._graph.columns[self.links["arc"]])

    @cached_property
    def words(self) -> npt.NDArray[np.uint32]:
        """uint32 [num_links]: the word that each link writes, a key of `word_symbols`; 0 for none."""
        return read_only(self._graph.words[self.links["arc"]])

    @cached_property
    def word_symbols(self) -> dict[int, str]:
        """The words that occur, by number; empty if the graph has no table of words."""
        table = self._graph.word_symbols
        return {} if table is None else {word: table[word] for word in np.unique(self.words).tolist() if word}

    @cached_property
    def label_symbols(self) -> dict[int, str]:
        """The labels that occur, by column; empty if the graph has no table of tokens."""
        tokens = self._batch.graph.tokens
        used = np.unique(self.columns[self.columns != EPSILON_COLUMN]).tolist()
        return {} if tokens is None else {column: tokens.tokens[column] for column in used}

    @cached_property
    def first_frame(self) -> int:
        """The frames of a stream before its sentence, whose lattice this is; 0 for an utterance."""
        return self._before.frames

    @cached_property
    def frame_shift(self) -> float | None:
        """Seconds from one frame to the next, if they are known."""
        return self._batch.frame_shift

    @cached_property
    def acoustic_scale(self) -> float:
        """The factor on the log-probs with which the lattice was made."""
        return self._batch.acoustic_scale

    @cached_property
    def posterior_scale(self) -> float:
        """The factor on costs with which probabilities are made of them."""
        return self._batch.posterior_scale

    @cached_property
    def scores(self) -> Floats:
        """float64 [num_links]: the score of each link, which is the sum of the next four."""
        links, costs = self.links, self._arrays["costs"]
        return read_only(0.0 - ((costs[links["target"]] + links["slack"].astype(np.float64)) - costs[links["source"]]))

    @cached_property
    def acoustic_scores(self) -> Floats:
        """float64 [num_links]: what the log-probs contribute, scaled, with blank penalties.

        It is what the other parts leave of the score, so a link that reads no frame may have a rounding error here.
        """
        return read_only(self.scores - self.graph_scores - self.rescoring_scores - self.boost_scores)

    @cached_property
    def graph_scores(self) -> Floats:
        """float64 [num_links]: the weights of the graph's arcs."""
        return read_only(0.0 - self._graph.weights[self.links["arc"]].astype(np.float64))

    @cached_property
    def rescoring_scores(self) -> Floats:
        """float64 [num_links]: the large language model's score less that of the graph's own; 0 without a model."""
        return read_only(0.0 - self._deviations[0].astype(np.float64))

    @cached_property
    def boost_scores(self) -> Floats:
        """float64 [num_links]: what the boost gives in advance, takes back, or adds; 0 without a boost."""
        return read_only(0.0 - self._boosts[0].astype(np.float64))

    @cached_property
    def final_scores(self) -> Floats:
        """float64 [num_tokens]: the score of ending in each token; -inf where no path ends."""
        scores = np.full(self.num_tokens, -np.inf)
        first, extras = self._ends
        costs = (self.total_cost + extras.astype(np.float64)) - self._arrays["costs"][first:]
        scores[first:] = 0.0 - costs
        return read_only(scores)

    @property
    def final_graph_scores(self) -> Floats:
        """float64 [num_tokens]: the graph's part of the final scores; -inf where no path ends."""
        return self._final_parts[0]

    @property
    def final_rescoring_scores(self) -> Floats:
        """float64 [num_tokens]: the part of the sentence end in the language models; -inf where no path ends."""
        return self._final_parts[1]

    @property
    def final_boost_scores(self) -> Floats:
        """float64 [num_tokens]: what an unfinished phrase gives back at the end; -inf where no path ends."""
        return self._final_parts[2]

    @cached_property
    def _final_parts(self) -> tuple[Floats, Floats, Floats]:
        parts = tuple(np.full(self.num_tokens, -np.inf) for _ in range(3))
        first, extras = self._ends
        ends = np.isfinite(extras)
        graph = self._graph.finals[self.states[first:]] if self.reached_final else np.zeros(len(extras))
        for part, costs in zip(parts, (graph, self._deviations[1], self._boosts[1]), strict=True):
            part[first:][ends] = 0.0 - costs[ends].astype(np.float64)
        return read_only(parts[0]), read_only(parts[1]), read_only(parts[2])

    @cached_property
    def _deviations(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        batch = self._batch
        if batch.rescoring is None or not self.num_tokens:
            return np.zeros(self.num_links, np.float32), np.zeros(len(self._arrays["end_extras"]), np.float32)
        batch.rescoring.check_files()
        return deviations(self._graph, batch.rescoring, batch.lattices, self._index, self._before.lm_context)

    @property
    def _boost(self) -> Boost | None:
        return boost_of(self._batch.boosts, self._index)

    @property
    def _before(self) -> SentenceStart:
        return self._batch.before.get(self._index, STREAM_START)

    @cached_property
    def _boosts(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        batch, boost = self._batch, self._boost
        if boost is None or not self.num_tokens:
            return np.zeros(self.num_links, np.float32), np.zeros(len(self._arrays["end_extras"]), np.float32)
        return boosts(self._graph, boost.compiled(batch.graph), batch.lattices, self._index)

    @property
    def _ends(self) -> tuple[int, npt.NDArray[np.float32]]:
        """The first token of the last step, and how much worse than the best each of them ends."""
        extras = self._arrays["end_extras"]
        return self.num_tokens - len(extras), extras

    @cached_property
    def text(self) -> str:
        """The words of the best path, with a space between them."""
        return self._graph.word_reader.text(self.links["arc"][self.best])

    @property
    def best(self) -> npt.NDArray[np.uint32]:
        """uint32: the links of the best path, which is the hypothesis."""
        return self._arrays["best"]

    @property
    def total_cost(self) -> float:
        """The cost of the best path, its end included."""
        return self._arrays["total_cost"]

    @property
    def reached_final(self) -> bool:
        """False if no path ends in a final state: then all tokens of the last frame are ends."""
        return self._arrays["reached_final"]

    @property
    def complete(self) -> bool:
        """False if the search died: the best path is all there is."""
        return self._arrays["complete"]

    @cached_property
    def lattice_beam(self) -> float:
        """The cost above the best path up to which other paths are there."""
        return self._batch.lattice_beam

    @cached_property
    def truncated(self) -> bool:
        """True if :meth:`rescore` came to its limit, so that the best path may not be the best of all."""
        return self._batch.truncated

    @property
    def num_links(self) -> int:
        """Links."""
        return len(self.links)

    @property
    def num_tokens(self) -> int:
        """Tokens; 0 if the utterance could not be decoded."""
        return len(self.states)

    @property
    def num_frames(self) -> int:
        """Frames that the paths read."""
        return max(len(self._arrays["first_token"]) - 2, 0)

    @cached_property
    def posteriors(self) -> Floats:
        """float64[links]: the probability of each link, summed over the paths through it; in [0, 1]."""
        return read_only(posteriors(*self._found, scale=self.posterior_scale).links)

    @property
    def _of_its_own(self) -> dict[str, Any]:
        """What a batch of this lattice alone says of it."""
        return {"boosts": self._boost, "before": {0: self._before}}

    @cached_property
    def _spelled(self) -> Spelled:
        """How what links write makes words."""
        return Spelled.by(self._batch.graph)

    @cached_property
    def _best_frames(self) -> Frames:
        """Where the labels of the best path begin and end."""
        return self._graph.word_reader.label_frames(self.links["arc"][self.best])

    def _name(self, word: int) -> str:
        return self.word_symbols.get(word, str(word)) if word else ""

    @property
    def _symbols(self) -> tuple[bytes, bytes]:
        if "_batch" in self.__dict__:
            graph = self._graph
            return self._batch.symbols if graph is self._batch.graph else symbols_of(graph)
        labels = [(0, "<eps>")] + [(column + 1, label) for column, label in self.label_symbols.items()]
        words = [(0, "<eps>"), *self.word_symbols.items()]
        return (
            _symbol_bytes("labels", labels if self.label_symbols else ()),
            _symbol_bytes("words", words if self.word_symbols else ()),
        )

    def __copy__(self) -> Self:
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    def __getstate__(self) -> dict[str, Any]:
        for name in DERIVED:
            getattr(self, name)
        return {name: value for name, value in self.__dict__.items() if name not in WITHOUT}

    def __repr__(self) -> str:
        how = () if self.complete else ("complete=False",)
        sizes = (f"{self.num_links:,} links", f"{self.num_tokens:,} tokens", f"{self.num_frames:,} frames")
        return shown_as(f"Lattice of {sizes[0]}", *sizes[1:], *how)


def symbols_of(graph: Graph | OpenGraph) -> tuple[bytes, bytes]:
    """A graph's tables of labels and words, as OpenFst files contain them."""
    tokens, words = graph.tokens, graph.word_symbols
    names = () if tokens is None else [(0, "<eps>"), *enumerate(tokens.tokens, 1)]
    return _symbol_bytes("labels", names), _symbol_bytes("words", () if words is None else words.items())


def read_only(values: Any) -> Any:
    """An array that cannot be written to; other values as they are."""
    if isinstance(values, np.ndarray):
        values.flags.writeable = False
    return values


def _symbol_bytes(name: str, symbols: Iterable[tuple[int, str]]) -> bytes:
    symbols = list(symbols)
    return symbol_bytes(name, symbols) if symbols else b""
