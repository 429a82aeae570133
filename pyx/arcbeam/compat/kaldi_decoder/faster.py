"""The decoders of the best path: `FasterDecoder`, and `SimpleDecoder`, which has no limit of tokens."""

from __future__ import annotations

from typing import Any

from arcbeam.compat.kaldi_decoder.decodable import DecodableCtc
from arcbeam.compat.kaldi_decoder.lattices import kaldifst, linear_lattice, without_epsilons
from arcbeam.compat.kaldi_decoder.options import FasterDecoderOptions, check_faster
from arcbeam.compat.kaldi_decoder.search import UtteranceSearch
from arcbeam.core.checks import check_real


class _PathDecoder:
    """What both share."""

    _search: UtteranceSearch

    def init_decoding(self) -> None:
        """Begins an utterance, whose frames `advance_decoding` takes."""
        self._search.begin()

    def advance_decoding(self, decodable: DecodableCtc, max_num_frames: int = -1) -> None:
        """Decodes the frames that are ready and were not decoded yet.

        Parameters
        ----------
        decodable : DecodableCtc
            Of an utterance that arrives in chunks, each has the `offset` of its first frame.
        max_num_frames : int
            The most frames to decode; below 0 for all.

        Raises
        ------
        RuntimeError
            `init_decoding` has not been called.
        TypeError, ValueError, IndexError
            No DecodableCtc; fewer frames than were decoded before, or a gap after them; another number of columns, NaN
            or +inf.
        """
        self._search.advance(decodable, max_num_frames)

    def reached_final(self) -> bool:
        """Whether a final state is alive after the frames so far."""
        return self._search.reached_final

    def get_best_path(self, use_final_probs: bool = True) -> tuple[bool, Any]:
        """Whether there is a path, and the best one as a ``kaldifst.Lattice``.

        Parameters
        ----------
        use_final_probs : bool
            Whether it has the cost of its final state. If a final state is alive, the path ends in one in any case.

        Raises
        ------
        MissingDependencyError
            kaldifst is missing.
        """
        if self._search.best is None:
            return False, kaldifst().Lattice()
        path, cost = without_epsilons(self._search.path(), self._search.final_cost if use_final_probs else 0.0)
        return True, linear_lattice(path, cost)

    def num_frames_decoded(self) -> int:
        """The frames so far; -1 before the first utterance."""
        return self._search.num_frames


class FasterDecoder(_PathDecoder):
    """Beam search for the best path.

    Parameters
    ----------
    fst : kaldifst.StdVectorFst, StdConstFst or StdFst
        It is compiled when it is first given to a decoder, and must not be changed afterwards.
    config : FasterDecoderOptions

    Raises
    ------
    TypeError, ValueError
        No such options, or some out of their range.
    GraphError
        The FST breaks a rule of `Graph.from_fst`.
    """

    def __init__(self, fst: Any, config: FasterDecoderOptions) -> None:
        check_faster(config)
        self._search = UtteranceSearch(fst, config.beam, max_active=config.max_active)

    def set_options(self, config: FasterDecoderOptions) -> None:
        """Sets the options of utterances that are begun from now on; errors as of the class."""
        check_faster(config)
        self._search.set_beam(config.beam, config.max_active)

    def decode(self, decodable: DecodableCtc) -> None:
        """Decodes an utterance: `init_decoding` and `advance_decoding`."""
        self._search.begin()
        self._search.advance(decodable)


class SimpleDecoder(_PathDecoder):
    """Beam search for the best path without a limit of tokens.

    Parameters
    ----------
    fst : kaldifst.StdVectorFst, StdConstFst or StdFst
        As of :class:`FasterDecoder`.
    beam : float
        Cost above the best token of a frame up to which others are kept.

    Raises
    ------
    TypeError, ValueError, GraphError
        As of :class:`FasterDecoder`.
    """

    def __init__(self, fst: Any, beam: float) -> None:
        check_real("beam", beam, "of at least 0", above=0.0, inclusive=True, infinite=True)
        self._search = UtteranceSearch(fst, beam)

    def decode(self, decodable: DecodableCtc) -> bool:
        """Decodes an utterance, and says whether a token is alive after it."""
        self._search.begin()
        self._search.advance(decodable)
        return self._search.best is not None

    def final_relative_cost(self) -> float:
        """The cost of the best final state above that of the best token; inf if none is alive."""
        return self._search.final_relative_cost
