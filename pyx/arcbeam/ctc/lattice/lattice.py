"""The lattice of an utterance: its paths within `lattice_beam` of the best, as links between tokens."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from arcbeam.core.calls import lists_options
from arcbeam.core.checks import check_count, check_real, shown
from arcbeam.core.warn import warn
from arcbeam.ctc.lattice._lattice import mbr, nbest, oracle, prune
from arcbeam.ctc.lattice._lattice_scores import rescore
from arcbeam.ctc.lattice._lattices import LINK, Lattices, best_to_states
from arcbeam.ctc.lattice.alternatives import Alternative, Nbest
from arcbeam.ctc.lattice.arrays import Floats, LatticeBatch, read_only
from arcbeam.ctc.lattice.forms import LatticeForms
from arcbeam.ctc.lattice.from_arcs import best_path
from arcbeam.ctc.lattice.mbr_words import MbrWords, Sausage, mbr_words, sausage_of
from arcbeam.ctc.lattice.whole_words import whole_words
from arcbeam.ctc.lattice.word_lattice import in_words
from arcbeam.ctc.options import DecoderOptions
from arcbeam.ctc.rescoring import rescoring_of_lattices
from arcbeam.lm.loading import as_language_model, as_large_model
from arcbeam.lm.no_model import no_model

if TYPE_CHECKING:
    from arcbeam.ctc.lattice.answers import Mbr
    from arcbeam.ctc.rescoring import LargeModel
    from arcbeam.graph.graph import Graph
    from arcbeam.lm.language_model import LanguageModel

UNKNOWN = 0xFFFFFFFF
OF_LINKS = ("columns", "words", "acoustic_scores", "graph_scores", "rescoring_scores", "boost_scores")


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


class Lattice(LatticeForms):
    """The paths of an utterance near its best one.

    A token is a state of the search after some frames; a link is an arc of the graph that leads from one token to
    another. Arrays are read-only and made when they are first read. Scores are natural logs: minus costs.

    A pickled lattice has the values of its arrays, but neither the graph nor language models: it can be pruned,
    searched, drawn and written, and cannot be rescored. One made by ``copy.copy`` can be.
    """

    @lists_options()
    def prune(self, beam: float) -> Lattice:
        """The lattice of a smaller `lattice_beam`: links on paths whose score lies within it of the best.

        Parameters
        ----------
        beam : float
            Natural log, at least 0. One above the lattice's `lattice_beam` leaves all links, with a warning.
        """
        check_real("beam", beam, "of at least 0", above=0.0, inclusive=True, infinite=True)
        if self.lattice_beam < beam < math.inf:
            warn(
                f"beam: expected at most {self.lattice_beam:g}, the lattice_beam of this lattice, got {beam:g}, with "
                "which nothing is pruned; decode with a larger lattice_beam for more links"
            )
        lattices, tokens, links = prune(*self._found, beam)
        if "_batch" in self.__dict__:
            beam = min(beam, self.lattice_beam)
            return Lattice(replace(self._batch, lattices=lattices, lattice_beam=beam, **self._of_its_own), 0)
        part = self._part(lattices, tokens, links)
        part.text, part.lattice_beam, part.truncated = self.text, min(beam, self.lattice_beam), self.truncated
        part._spelled, part._best_frames = self._spelled, self._best_frames
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
        part._final_parts = read_only(graph), read_only(rescoring), read_only(boost)
        for value in (*of_links.values(), *part._arrays.values()):
            read_only(value)
        return part

    @lists_options()
    def rescore(
        self,
        language_model: LargeModel | str | os.PathLike[str],
        graph_language_model: LanguageModel | str | os.PathLike[str] | None = None,
        *,
        lm_scale: float = 1.0,
        graph_lm_scale: float | None = None,
        unknown_words: str = "error",
        beam: float | None = None,
    ) -> Lattice:
        """The lattice with the scores of a large language model in place of those of the graph's own.

        All paths of this lattice are rescored, exactly: it is composed with both models, and a word adds the deviation
        that `CtcDecoder` with a ``language_model`` adds on the fly (Kim & Lane 2014, equations 6 and 7). Paths that the
        first search or this lattice's beam dropped are not recovered; a larger ``lattice_beam`` keeps more. The words
        are `text`, and those of other paths :meth:`nbest`.

        Parameters
        ----------
        language_model : LanguageModel, KenLM or path
            The large model, as for `CtcDecoder`. A path is opened anew by each call.
        graph_language_model : LanguageModel, path or None
            The model that the graph was built with, whose scores are taken off. None for lattices whose words have no
            scores yet: those of transducers, and of `whole_words`.
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
            Its ``truncated`` is True if there were more than 2**25 pairs of links and histories. After that only
            the best history of each token was followed, and a better path may have been missed. Less to rescore:
            ``lattice.prune(4.0).rescore(...)``.

        Raises
        ------
        TypeError, ValueError
            An option out of its range; a lattice that was rescored already, comes from a pickle, or has no path that
            the large model allows; no `graph_language_model` for a graph that was built with one, or may have been.
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
        if beam is not None:
            check_real("beam", beam, "of at least 0, or None", above=0.0, inclusive=True, infinite=True)
        options = DecoderOptions(
            lm_scale=lm_scale,
            graph_lm_scale=graph_lm_scale,
            unknown_words=unknown_words,
            lattice_beam=batch.lattice_beam if beam is None else beam,
        )
        large = as_large_model("language_model", language_model)
        small = _small_model(batch.graph, graph_language_model, unknown_words)
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
    def whole_words(self) -> Lattice:
        """The lattice of words of one whose links write pieces; a lattice of words itself.

        A word stands on the link of its first piece, and has the times of its pieces. Paths that write one word in
        other pieces have the same words, so that the entries of :meth:`nbest` differ in words. The scores of this
        lattice stay as they are; :meth:`rescore` adds those of a model of words.

        Raises
        ------
        ValueError
            The lattice comes from a pickle, or nothing says how its words are written.
        CapacityError
            There would be more than 2**22 links: prune the lattice first.
        """
        batch = self._whole_batch("whole_words")
        if self.words.any() and not self.word_symbols:
            raise ValueError(
                "whole_words: expected a lattice with the names of its words or pieces, got one with numbers alone; "
                "give words= to Graph.load, or tokenizer= to a transducer's decoder"
            )
        if not self._spelled.in_pieces or not self.num_tokens:
            return self
        graph, lattices = in_words(self, batch.graph, self._spelled.separator, np.sum(self._final_parts, 0))
        made = replace(
            batch, graph=graph, lattices=lattices, rescoring=None, boosts=None, before=self._of_its_own["before"]
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

    def _check_case(self, spoken: Sequence[str]) -> None:
        """Warns of a reference of which no word is in the lattice, but some in another case."""
        names = {self.word_symbols[word] for word in np.unique(self.words[self.words > 0]).tolist()}
        others = names | {name.casefold() for name in names}
        found = [word for word in spoken if word.casefold() in others]
        if found and not names.intersection(spoken) and not self._spelled.in_pieces:
            warn(f"reference: expected words in the case of the lattice's, got {found[0]!r}")

    @lists_options()
    def oracle_wer(self, reference: str | Iterable[str]) -> OracleErrors:
        """The fewest errors of any path: its word error rate is the least that choosing among paths can reach.

        The result is exact. Rows of edit distances take at most 256 MiB; those that do not fit are computed again when
        they are needed, so a lattice of an hour takes longer, and not more memory.

        Parameters
        ----------
        reference : str or list of str
            What was said: words with spaces between, or a list of them. Where the graph writes pieces of words, they
            are put together first. Words are compared as they are written, with their case; a warning says if that is
            why none of them is in the lattice.

        Raises
        ------
        TypeError
            A reference that is neither a text nor a list of words.
        ValueError
            The lattice has words, and the graph has no symbols for them.
        """
        if self.words.any() and not self.word_symbols:
            raise ValueError("oracle_wer: expected a graph with symbols of words; give words= to Graph.load")
        spoken = reference.split() if isinstance(reference, str) else reference
        spoken = list(spoken) if isinstance(spoken, Iterable) else [spoken]
        if not all(isinstance(word, str) for word in spoken):
            raise TypeError(f"reference: expected a str or a list of words, got {shown(reference):.80}")
        self._check_case(spoken)
        if self._spelled.in_pieces and self.num_tokens:
            names, separator = self.word_symbols, self._spelled.separator
            whole = whole_words(self._arrays, self.words, names, separator, spoken)
            words_of = Lattices.of_arrays([whole.arrays])
            found = oracle(words_of, 0, whole.words, [whole.ids[word] for word in spoken])
            links = whole.links[found.links]
            labels = self.words[links[links >= 0]]
        else:
            ids = {name: word for word, name in self.word_symbols.items()}
            found = oracle(*self._found, self.words, [ids.get(word, UNKNOWN) for word in spoken])
            labels = self.words[found.links]
        said = [self.word_symbols[label] for label in labels.tolist() if label]
        words = [word for word, _, _ in self._spelled.words(said)]
        return OracleErrors(found.errors, words, found.errors / len(spoken) if spoken else float("nan"))

    @cached_property
    def _mbr(self) -> Mbr:
        return mbr(*self._found, self.words, scale=self.posterior_scale)

    @cached_property
    def mbr(self) -> MbrWords:
        """The words of the fewest expected errors, by minimum Bayes risk decoding (Xu, Povey, Mangu & Zhu 2011)."""
        return mbr_words(self._mbr, self._name, self._spelled, self._best_frames, self.frame_shift, self.first_frame)

    @cached_property
    def sausage(self) -> Sausage:
        """The confusion network: for each position the words that compete there, by falling posterior.

        ``""`` stands for no word. The posteriors of a position sum to 1. Where the graph writes pieces, it has pieces.
        """
        return sausage_of(self._mbr, self._name)

    def _whole_batch(self, name: str) -> LatticeBatch:
        if "_batch" not in self.__dict__:
            raise ValueError(f"{name}: expected a lattice with its graph, got one from a pickle, which has none")
        return self._batch


def _small_model(
    graph: Graph, given: LanguageModel | str | os.PathLike[str] | None, unknown_words: str
) -> LanguageModel:
    """The model that a graph was built with; if it has none, one that costs nothing."""
    has_none = graph.meta.get("lm_scale") == 0 and "lm_digest" not in graph.meta
    if has_none and given is not None:
        raise ValueError(
            "graph_language_model: expected None, because the words of this lattice have no scores of a language model"
        )
    if has_none and unknown_words == "small":
        raise ValueError(
            'unknown_words: expected "error" or "unk", because there is no graph_language_model to score them, '
            'got "small"'
        )
    if not has_none and given is None:
        raise ValueError(
            "graph_language_model: expected the model that the graph was built with, whose scores are in the lattice "
            "and have to be subtracted, got None"
        )
    return no_model() if given is None else as_language_model("graph_language_model", given)


def reweighted(lattice: Lattice, link_costs: Floats, end_costs: Floats) -> Lattice:
    """The lattice with these costs of links and of ending in each token, +inf where no path ends.

    Its `scores` are minus these costs; their parts, such as `graph_scores`, are those of before. Probabilities are of
    the costs themselves: its `posterior_scale` is 1.
    """
    if not lattice.num_tokens:
        return lattice
    links = np.empty(lattice.num_links, LINK)
    for name in ("source", "target", "arc"):
        links[name] = lattice.links[name]
    sources, targets = links["source"].astype(np.int64), links["target"].astype(np.int64)
    best = best_to_states(0, sources, targets, link_costs, lattice.num_tokens)
    links["slack"] = (best[sources] + link_costs) - best[targets]
    arrays: dict[str, Any] = dict(lattice._arrays)
    ends = (best + end_costs)[lattice.num_tokens - len(arrays["end_extras"]) :]
    total = float(ends.min())
    end = lattice.num_tokens - len(ends) + int(np.argmin(ends))
    arrays |= {"costs": best, "links": links, "end_extras": ends - total, "total_cost": total}
    arrays["best"] = best_path(links, end)
    batch = replace(
        lattice._whole_batch("reweighted"),
        lattices=Lattices.of_arrays([arrays]),
        posterior_scale=1.0,
        lattice_beam=math.inf,
        **lattice._of_its_own,
    )
    return Lattice(batch, 0)
