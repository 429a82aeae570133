"""The lattice of an utterance: its paths within `lattice_beam` of the best, as links between tokens."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from arcbeam.calls import lists_options
from arcbeam.checks import check_count, check_real, shown
from arcbeam.ctc._lattice import mbr, nbest, oracle, posteriors, prune
from arcbeam.ctc._lattice_scores import boosts, deviations, rescore
from arcbeam.ctc._lattices import Lattices
from arcbeam.ctc.alternatives import Alternative, Nbest
from arcbeam.ctc.boost import Boost, Boosts, boost_of, opened
from arcbeam.ctc.options import DecoderOptions
from arcbeam.ctc.rescoring import rescoring_of_lattices
from arcbeam.ctc.sentences import NOTHING_BEFORE, Before
from arcbeam.graph.openfst import symbol_bytes, write_vector
from arcbeam.lattices import pictures
from arcbeam.lattices.folding import Folded, fold
from arcbeam.lattices.kaldi_lattice import ARC, FINAL, KaldiLattice
from arcbeam.lattices.openfst_objects import read_back
from arcbeam.lattices.word_graph import word_graph
from arcbeam.lm.loading import as_language_model, as_large_model
from arcbeam.show import shown_as
from arcbeam.words import Word

if TYPE_CHECKING:
    from arcbeam.ctc.lattice_answers import Mbr
    from arcbeam.ctc.rescoring import LargeModel, Rescoring
    from arcbeam.graph.graph import Graph
    from arcbeam.graph.new_words import OpenGraph
    from arcbeam.lm.language_model import LanguageModel

EPSILON_COLUMN = 0xFFFF
MOST_WORDS = 0x7FFFFFFF
UNKNOWN = 0xFFFFFFFF
Floats = npt.NDArray[np.float64]
Sausage: TypeAlias = list[list[tuple[str, float]]]
OF_LINKS = ("columns", "words", "acoustic_scores", "graph_scores", "rescoring_scores", "boost_scores")

# Attributes that a pickle has instead of the batch, the graph and the models.
DERIVED = (
    "_arrays", "columns", "words", "word_symbols", "label_symbols", "frame_shift", "acoustic_scale", "posterior_scale",
    "acoustic_scores", "graph_scores", "rescoring_scores", "boost_scores", "_final_parts", "text", "lattice_beam",
    "truncated", "first_frame",
)  # fmt: skip

WITHOUT = ("_batch", "_index", "_found")  # attributes that a pickle lacks


@dataclass(frozen=True, eq=False)
class LatticeBatch:
    """What the lattices of a batch share.

    Attributes
    ----------
    graph : Graph
    lattices : Lattices
    frame_shift : float or None
        Seconds from one frame to the next.
    rescoring : Rescoring or None
    acoustic_scale : float
        The factor on the log-probs with which the lattices were made.
    posterior_scale : float
        Factor on costs where probabilities are made of them.
    lattice_beam : float
        Cost above the best path up to which other paths are there.
    truncated : bool
        Rescoring came to its limit.
    boosts : Boost, sequence of Boost or None, or None
        Of all utterances, or of each.
    before : dict of int to Before
        What came before sentences of streams.
    """

    graph: Graph
    lattices: Lattices
    frame_shift: float | None = None
    rescoring: Rescoring | None = None
    acoustic_scale: float = 1.0
    posterior_scale: float = 1.0
    lattice_beam: float = math.inf
    truncated: bool = False
    boosts: Boosts = None
    before: Mapping[int, Before] = field(default_factory=dict)

    @cached_property
    def symbols(self) -> tuple[bytes, bytes]:
        """The graph's tables of labels and words, as OpenFst files contain them."""
        return symbols_of(self.graph)


class MbrWords(NamedTuple):
    """The result of minimum Bayes risk decoding.

    Attributes
    ----------
    text : str
        The words, with a space between them.
    words : list of Word
        With confidences. A word's times are those of the link that writes it, averaged over the lattice.
    errors : float
        The expected number of errors of these words.
    truncated : bool
        The lattice is so large that edit distances were computed in bands around the hypothesis, whose words these are.
    """

    text: str
    words: list[Word]
    errors: float
    truncated: bool


def mbr_words(found: Mbr, name: Callable[[int], str], frame_shift: float | None, first_frame: int) -> MbrWords:
    """The words of an array of ids; `name` gives the word of an id. They begin after `first_frame` frames."""
    words = []
    for word, begin, end, confidence in zip(
        found.words.tolist(), found.begins.tolist(), found.ends.tolist(), found.confidences.tolist(), strict=True
    ):
        start, stop = None, None
        if frame_shift is not None:
            start, stop = (first_frame + begin) * frame_shift, (first_frame + end) * frame_shift
        span = first_frame + round(begin), first_frame + round(end)
        words.append(Word(name(word), *span, start, stop, confidence))
    return MbrWords(" ".join(word.word for word in words), words, found.errors, found.truncated)


def sausage_of(found: Mbr, name: Callable[[int], str]) -> Sausage:
    """The confusion network with the words of their ids."""
    return [[(name(word), posterior) for word, posterior in rivals] for rivals in found.sausage()]


class OracleErrors(NamedTuple):
    """The path of a lattice that is nearest to a reference.

    Attributes
    ----------
    errors : int
        Words that are inserted, deleted or substituted.
    words : list of str
        The words of that path.
    rate : float
        Errors over the reference's words; nan if it has none.
    """

    errors: int
    words: list[str]
    rate: float


class Lattice:
    """The paths of an utterance near its best one.

    A token is a state of the search after some frames; a link is an arc of the graph that leads from one token to
    another. Arrays are read-only and made when they are first looked at. Scores are natural logs: minus costs.

    A pickled lattice has the values of its arrays, but neither the graph nor language models: it can be pruned,
    searched, drawn and written, and cannot be rescored.
    """

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
            _read_only(value)
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
        return _read_only(np.repeat(np.arange(len(counts), dtype=np.int32), counts))

    @cached_property
    def times(self) -> Floats | None:
        """float64 [num_tokens]: the same in seconds; None if the decoder was given no ``frame_shift``.

        A link lasts from the time of its source to that of its target. Seconds of a stream count from its beginning.
        """
        if self.frame_shift is None:
            return None
        return _read_only((self.first_frame + self.steps.astype(np.int64)) * self.frame_shift)

    @cached_property
    def columns(self) -> npt.NDArray[np.uint16]:
        """uint16 [num_links]: the column that each link reads; 0xffff for none."""
        return _read_only(self._graph.columns[self.links["arc"]])

    @cached_property
    def words(self) -> npt.NDArray[np.uint32]:
        """uint32 [num_links]: the word that each link writes, a key of `word_symbols`; 0 for none."""
        return _read_only(self._graph.words[self.links["arc"]])

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
        return _read_only(0.0 - ((costs[links["target"]] + links["slack"].astype(np.float64)) - costs[links["source"]]))

    @cached_property
    def acoustic_scores(self) -> Floats:
        """float64 [num_links]: what the log-probs contribute, scaled, with blank penalties.

        It is what the other parts leave of the score, so a link that reads no frame may have a rounding error here.
        """
        return _read_only(self.scores - self.graph_scores - self.rescoring_scores - self.boost_scores)

    @cached_property
    def graph_scores(self) -> Floats:
        """float64 [num_links]: the weights of the graph's arcs."""
        return _read_only(0.0 - self._graph.weights[self.links["arc"]].astype(np.float64))

    @cached_property
    def rescoring_scores(self) -> Floats:
        """float64 [num_links]: the large language model's score less that of the graph's own; 0 without a model."""
        return _read_only(0.0 - self._deviations[0].astype(np.float64))

    @cached_property
    def boost_scores(self) -> Floats:
        """float64 [num_links]: what the boost gives in advance, takes back, or adds; 0 without a boost."""
        return _read_only(0.0 - self._boosts[0].astype(np.float64))

    @cached_property
    def final_scores(self) -> Floats:
        """float64 [num_tokens]: the score of ending in each token; -inf where no path ends."""
        scores = np.full(self.num_tokens, -np.inf)
        first, extras = self._ends
        costs = (self.total_cost + extras.astype(np.float64)) - self._arrays["costs"][first:]
        scores[first:] = 0.0 - costs
        return _read_only(scores)

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
        return _read_only(parts[0]), _read_only(parts[1]), _read_only(parts[2])

    @cached_property
    def _deviations(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        batch = self._batch
        if batch.rescoring is None or not self.num_tokens:
            return np.zeros(self.num_links, np.float32), np.zeros(len(self._arrays["end_extras"]), np.float32)
        batch.rescoring.check_files()
        return deviations(self._graph, batch.rescoring, batch.lattices, self._index, self._before.heard)

    @property
    def _boost(self) -> Boost | None:
        return boost_of(self._batch.boosts, self._index)

    @property
    def _before(self) -> Before:
        return self._batch.before.get(self._index, NOTHING_BEFORE)

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

    @lists_options()
    def prune(self, beam: float) -> Lattice:
        """The lattice of a smaller `lattice_beam`: links on paths whose score lies within it of the best.

        Parameters
        ----------
        beam : float
            Natural log, at least 0.
        """
        check_real("beam", beam, "of at least 0", above=0.0, inclusive=True, infinite=True)
        lattices, tokens, links = prune(*self._found, beam)
        if "_batch" in self.__dict__:
            beam = min(beam, self.lattice_beam)
            return Lattice(replace(self._batch, lattices=lattices, lattice_beam=beam, **self._of_its_own), 0)
        part = self._part(lattices, tokens, links)
        part.text, part.lattice_beam, part.truncated = self.text, min(beam, self.lattice_beam), self.truncated
        return part

    def _part(self, lattices: Lattices, tokens: npt.NDArray[np.uint32], links: npt.NDArray[np.uint32]) -> Lattice:
        """The lattice of some tokens and links of this one, which has no graph: it takes its values over."""
        part = Lattice.__new__(Lattice)
        of_links = {name: getattr(self, name)[links] for name in OF_LINKS}
        used = set(of_links["words"].tolist()), set(of_links["columns"].tolist())
        part.__dict__.update(of_links, _found=(lattices, 0), frame_shift=self.frame_shift)
        part.first_frame = self.first_frame
        part.__dict__.update(acoustic_scale=self.acoustic_scale, posterior_scale=self.posterior_scale)
        part._arrays = lattices.arrays(0)
        part.word_symbols = {word: name for word, name in self.word_symbols.items() if word in used[0]}
        part.label_symbols = {column: name for column, name in self.label_symbols.items() if column in used[1]}
        ends = np.isfinite(part.final_scores)
        graph, rescoring, boost = (np.where(ends, values[tokens], -np.inf) for values in self._final_parts)
        part._final_parts = _read_only(graph), _read_only(rescoring), _read_only(boost)
        for value in (*of_links.values(), *part._arrays.values()):
            _read_only(value)
        return part

    @lists_options()
    def rescore(
        self,
        language_model: LargeModel | str | os.PathLike[str],
        graph_language_model: LanguageModel | str | os.PathLike[str],
        *,
        lm_scale: float = 1.0,
        graph_lm_scale: float | None = None,
        unknown_words: str = "error",
        beam: float | None = None,
    ) -> Lattice:
        """The lattice with the scores of a large language model in place of those of the graph's own.

        All paths of this lattice are rescored, exactly: it is composed with both models, and a word adds the deviation
        that `CtcDecoder` with a ``language_model`` adds on the fly (Kim & Lane 2014, equations 6 and 7). What the
        search with the small model has dropped, or this lattice's beam, stays lost; a larger ``lattice_beam`` loses
        less. The words are `text`, and those of other paths :meth:`nbest`.

        Parameters
        ----------
        language_model : LanguageModel, KenLM or path
            The large model, as for `CtcDecoder`. A path is opened anew by each call.
        graph_language_model : LanguageModel or path
            The model that the graph was built with, whose scores are taken off.
        lm_scale : float
            Factor on the natural-log probabilities of `language_model`.
        graph_lm_scale : float or None
            Factor that the graph was built with; None for the factor that the graph records, or 1.
        unknown_words : str
            How to treat words of the graph that `language_model` lacks: ``"error"``, ``"unk"`` or ``"small"``, as for
            `CtcDecoder`.
        beam : float, optional
            Cost above the best rescored path up to which others are kept; None for that of this lattice.

        Returns
        -------
        Lattice
            Its ``truncated`` is True if there were more than 2**25 pairs of links and histories. Behind that place only
            the best history of each token was followed, and a better path may have been missed. Less to rescore:
            ``lattice.prune(4.0).rescore(...)``.

        Raises
        ------
        TypeError, ValueError
            An option out of its range; a lattice that was rescored already, comes from a pickle, or has no path that
            the large model allows.
        GraphError
            The graph was not built with `graph_language_model`, or has words that `language_model` lacks.
        FormatError
            A file of a model is damaged, or has been changed in place.
        MemoryError
            The rescored lattice does not fit.
        """
        batch = self._whole_batch("rescore")
        if batch.rescoring is not None:
            raise ValueError(
                "rescore: expected a lattice with the scores of its graph alone, got one that a language model has "
                "rescored already; decode without language_model=, or rescore the lattice that was not"
            )
        options = DecoderOptions(
            lm_scale=lm_scale,
            graph_lm_scale=graph_lm_scale,
            unknown_words=unknown_words,
            lattice_beam=batch.lattice_beam if beam is None else beam,
        )
        large = as_large_model("language_model", language_model)
        small = as_language_model("graph_language_model", graph_language_model)
        batch.graph.check_file()
        rescoring = rescoring_of_lattices(batch.graph, large, small, options)
        rescored, truncated = rescore(self._graph, rescoring, batch.lattices, self._index, options.lattice_beam)
        made = replace(
            batch,
            lattices=rescored,
            rescoring=rescoring,
            **self._of_its_own,
            lattice_beam=options.lattice_beam,
            truncated=truncated,
        )
        return Lattice(made, 0)

    @lists_options()
    def nbest(self, n: int) -> Nbest:
        """The n best distinct word sequences, best first, the best path as the first.

        It is ``hypothesis.nbest`` of ``decode(nbest=n)``, for lattices that were pruned or rescored, too.

        Parameters
        ----------
        n : int
            At least 1. The lattice may hold fewer: then the list's ``is_all`` is True.
        """
        batch = self._whole_batch("nbest")
        check_count("n", n, or_none="")
        found = nbest(batch.lattices, self._index, self.words, n, scale=batch.posterior_scale)
        arcs, bounds = self.links["arc"][found.links], found.first_link.tolist()
        alternatives = [
            Alternative(
                batch,
                arcs[begin:end],
                0.0 - cost if self.complete else -math.inf,
                posterior,
                self.reached_final,
                self._boost,
                self._before,
            )
            for begin, end, cost, posterior in zip(
                bounds, bounds[1:], found.costs.tolist(), found.posteriors.tolist(), strict=False
            )
        ]
        return Nbest(alternatives, len(alternatives) < n and not found.truncated, found.truncated)

    @lists_options()
    def oracle_wer(self, reference: str | Iterable[str]) -> OracleErrors:
        """The fewest errors of any path: its word error rate is the least that choosing among paths can reach.

        The result is exact. The rows of edit distances are kept for so many steps that they take 256 MiB, and filled
        again between those; so a lattice of an hour takes longer, and not more memory.

        Parameters
        ----------
        reference : str or list of str
            What was said: words with spaces between, or a list of them.

        Raises
        ------
        ValueError
            The lattice has words, and the graph does not know their names.
        """
        if self.words.any() and not self.word_symbols:
            raise ValueError("oracle_wer: expected a graph that knows its words; give words= to Graph.load")
        wanted = reference.split() if isinstance(reference, str) else list(reference)
        if not all(isinstance(word, str) for word in wanted):
            raise TypeError(f"reference: expected a str or a list of words, got {shown(reference):.80}")
        ids = {name: word for word, name in self.word_symbols.items()}
        found = oracle(*self._found, self.words, [ids.get(word, UNKNOWN) for word in wanted])
        words = [self.word_symbols[word] for word in self.words[found.links].tolist() if word]
        return OracleErrors(found.errors, words, found.errors / len(wanted) if wanted else float("nan"))

    @cached_property
    def posteriors(self) -> Floats:
        """float64[links]: the probability of each link, summed over the paths through it; in [0, 1]."""
        return _read_only(posteriors(*self._found, scale=self.posterior_scale).links)

    @cached_property
    def _mbr(self) -> Mbr:
        return mbr(*self._found, self.words, scale=self.posterior_scale)

    @cached_property
    def mbr(self) -> MbrWords:
        """The words of the fewest expected errors, by minimum Bayes risk decoding (Xu, Povey, Mangu & Zhu 2011)."""
        return mbr_words(self._mbr, self._name, self.frame_shift, self.first_frame)

    @cached_property
    def sausage(self) -> Sausage:
        """The confusion network: for each position the words that compete there, by falling posterior.

        ``""`` stands for no word. The posteriors of a position sum to 1.
        """
        return sausage_of(self._mbr, self._name)

    @property
    def _of_its_own(self) -> dict[str, Any]:
        """What a batch of this lattice alone says of it."""
        return {"boosts": self._boost, "before": {0: self._before}}

    def _whole_batch(self, name: str) -> LatticeBatch:
        if "_batch" not in self.__dict__:
            raise ValueError(f"{name}: expected a lattice with its graph, got one from a pickle, which has none")
        return self._batch

    def _name(self, word: int) -> str:
        return self.word_symbols.get(word, str(word)) if word else ""

    @lists_options()
    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes an OpenFst vector file; see `to_openfst`.

        Parameters
        ----------
        path
            Where to write.
        """
        links = self.links
        labels = np.where(self.columns == EPSILON_COLUMN, 0, self.columns.astype(np.int32) + 1)
        inputs, outputs = self._symbols
        write_vector(
            path,
            0 if self.num_tokens else -1,
            links["source"],
            links["target"],
            labels,
            _as_int32(self.words),
            0.0 - self.scores,
            0.0 - self.final_scores,
            input_symbols=inputs,
            output_symbols=outputs,
        )

    @lists_options()
    def to_openfst(self) -> Any:
        """A transducer: a ``kaldifst.StdVectorFst``, or pywrapfst's where only that is installed.

        Its states are the tokens. It reads labels as graphs do, column + 1, and writes words; 0 is epsilon. Weights are
        costs in float32, so two paths may tie that do not tie here. It has the graph's tables of symbols; from a pickle
        those that occur.

        Raises
        ------
        MissingDependencyError
            Neither kaldifst nor pywrapfst is installed.
        """
        return read_back(self.write)

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

    @lists_options()
    def to_kaldi(self, acoustic_scale: float | None = None) -> KaldiLattice:
        """The lattice as Kaldi's programs have it: an acceptor of words whose arcs carry the labels of their frames.

        Chains of links become arcs with at most one word. The graph's cost includes those of the large language model
        and of a boost.
        A label is column + 1, one for each frame, so that Kaldi's programs find times.

        Parameters
        ----------
        acoustic_scale : float, optional
            Kaldi's acoustic costs are not scaled, so they are divided by this; None takes that of the decoder.
        """
        scale = self.acoustic_scale if acoustic_scale is None else acoustic_scale
        if not 0.0 < scale < np.inf:
            raise ValueError(f"acoustic_scale: expected a number above 0, got {scale!r}")
        folded = self.folded
        arcs = np.empty(len(folded.words), ARC)
        arcs["source"], arcs["target"] = folded.sources, folded.targets
        arcs["word"] = _as_int32(folded.words)
        arcs["graph_cost"] = folded.sums(0.0 - (self.graph_scores + self.rescoring_scores + self.boost_scores))
        arcs["acoustic_cost"] = folded.sums(0.0 - self.acoustic_scores) / scale
        columns = self.columns[folded.order]
        read_before = np.append(0, np.cumsum(columns != EPSILON_COLUMN))
        finals = np.empty(len(folded.tokens), FINAL)
        final_costs = 0.0 - self.final_scores[folded.tokens]
        of_graph = 0.0 - np.sum(self._final_parts, axis=0)[folded.tokens]
        finals["graph_cost"] = of_graph
        ends = np.isfinite(final_costs)
        finals["acoustic_cost"] = np.inf
        finals["acoustic_cost"][ends] = (final_costs[ends] - of_graph[ends]) / scale
        return KaldiLattice(
            0 if self.num_tokens else -1,
            arcs,
            columns[columns != EPSILON_COLUMN].astype(np.int32) + 1,
            read_before[folded.begins].astype(np.int64),
            finals,
            np.zeros(0, np.int32),
            np.zeros(len(finals) + 1, np.int64),
        )

    @cached_property
    def folded(self) -> Folded:
        """Chains of links as arcs with at most one word; see `arcbeam.lattices.folding`."""
        links = self.links
        return fold(links["source"], links["target"], self.words, self.num_tokens, np.isfinite(self.final_scores))

    @lists_options()
    def to_dot(self, least: float = 0.01, start: float | None = None, end: float | None = None) -> str:
        """What `plot` draws as text for Graphviz, from left to right; the best path is bold.

        Parameters
        ----------
        least, start, end
            As of `plot`.
        """
        return pictures.to_dot(self._picture(least, start, end))

    @lists_options()
    def plot(self, ax: Any = None, *, least: float = 0.01, start: float | None = None, end: float | None = None) -> Any:
        """Draws the words of the lattice over time, and which of them follow each other.

        A box is a word where the graph writes it; links that write the same word within six frames of each other are
        one box. The circles are the start and the end. The more probable a box or a line, the thicker and the less
        transparent it is; the best path has a colour of its own, and no box covers another. At most
        200 words are drawn, and the picture says how many are left out. It is meant for some ten words: draw a stretch
        of longer speech.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; None makes a figure that is wide enough for the words of the best path.
        least : float
            Words and lines of smaller posteriors are left out, but those of the best path; from 0 to 1.
        start, end : float, optional
            The stretch that is drawn: seconds, or frames if the decoder was given no ``frame_shift``.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        MissingDependencyError
            matplotlib is missing.
        """
        return pictures.plot(self._picture(least, start, end), ax)

    def _picture(self, least: float = 0.01, start: float | None = None, end: float | None = None) -> pictures.Picture:
        check_real("least", least, "from 0 to 1", above=0.0, inclusive=True)
        if least > 1.0:
            raise ValueError(f"least: expected a number from 0 to 1, got {least!r}")
        shift = 1.0 if self.frame_shift is None else self.frame_shift
        first = self.first_frame
        span = -np.inf if start is None else start / shift - first, np.inf if end is None else end / shift - first
        if not span[0] < span[1]:
            raise ValueError(f"end: expected a time after start, got start={start!r} and end={end!r}")
        found = word_graph(self.links, self.words, self.steps, self.posteriors, self.best, least, span)
        left_out = f"left out: {found.left_out} less probable word{'s'[: found.left_out != 1]}"
        return pictures.Picture(
            [pictures.Box((first + n.frame) * shift, self._name(n.word), n.posterior, n.best) for n in found.nodes],
            [pictures.Line(*edge) for edge in found.edges],
            "frames" if self.frame_shift is None else "seconds",
            left_out if found.left_out else "",
        )

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


def _read_only(values: Any) -> Any:
    if isinstance(values, np.ndarray):
        values.flags.writeable = False
    return values


def _as_int32(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.int32]:
    if words.size and int(words.max()) > MOST_WORDS:
        raise ValueError(
            f"expected words numbered up to {MOST_WORDS}, which other programs can read, got {words.max()}"
        )
    return words.astype(np.int32)


def _symbol_bytes(name: str, symbols: Iterable[tuple[int, str]]) -> bytes:
    symbols = list(symbols)
    return symbol_bytes(name, symbols) if symbols else b""
