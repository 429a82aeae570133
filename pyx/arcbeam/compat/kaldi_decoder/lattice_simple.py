"""The decoder of lattices."""

from __future__ import annotations

from typing import Any

from arcbeam.compat.kaldi_decoder.decodable import DecodableCtc
from arcbeam.compat.kaldi_decoder.lattices import kaldifst, linear_lattice, raw_lattice
from arcbeam.compat.kaldi_decoder.options import LatticeSimpleDecoderConfig, check_lattice_simple
from arcbeam.compat.kaldi_decoder.search import UtteranceSearch


class LatticeSimpleDecoder:
    """Beam search for the paths near the best one, without a limit of tokens.

    Parameters
    ----------
    fst : kaldifst.StdVectorFst, StdConstFst or StdFst
        It is compiled when it is first given to a decoder, and must not be changed afterwards.
    config : LatticeSimpleDecoderConfig

    Raises
    ------
    TypeError, ValueError, GraphError
        As of `FasterDecoder`.
    """

    def __init__(self, fst: Any, config: LatticeSimpleDecoderConfig) -> None:
        check_lattice_simple(config)
        self._config = config
        self._search = UtteranceSearch(fst, config.beam, lattice_beam=config.lattice_beam)
        self._is_finalized = False

    def get_config(self) -> LatticeSimpleDecoderConfig:
        """The options."""
        return self._config

    def init_decoding(self) -> None:
        """Begins an utterance; `decode` does it, too."""
        self._search.begin()
        self._is_finalized = False

    def decode(self, decodable: DecodableCtc) -> bool:
        """Decodes an utterance, and says whether a final state is alive after it; errors as of `FasterDecoder`."""
        self.init_decoding()
        self._search.advance(decodable)
        self._is_finalized = True
        return self._search.reached_final

    def finalize_decoding(self) -> None:
        """Ends an utterance; RuntimeError after `decode`, which has done so."""
        if self._is_finalized or self._search.best is None:
            raise RuntimeError(
                "finalize_decoding: expected an utterance that has begun and was not ended, but decode has ended it, "
                "or none was begun"
            )
        self._is_finalized = True

    def get_best_path(self, use_final_probs: bool = True) -> tuple[bool, Any]:
        """Whether there is a path, and the best one as a ``kaldifst.Lattice``; errors as of `get_raw_lattice`."""
        self._check(use_final_probs)
        if self._search.best is None:
            return False, kaldifst().Lattice()
        return True, linear_lattice(self._search.path(), self._search.final_cost)

    def get_raw_lattice(self, use_final_probs: bool = True) -> tuple[bool, Any]:
        """Whether there is a lattice, and the lattice with all paths, a ``kaldifst.Lattice``.

        Parameters
        ----------
        use_final_probs : bool
            True, because `decode` has counted the costs of final states.

        Raises
        ------
        RuntimeError
            No frame was decoded; or `use_final_probs` is False.
        MissingDependencyError
            kaldifst is missing.
        """
        self._check(use_final_probs)
        best = self._search.best
        if best is None or best.lattice is None:
            return False, kaldifst().Lattice()
        return True, raw_lattice(best.lattice)

    def _check(self, use_final_probs: bool) -> None:
        """RuntimeError for what an utterance cannot give."""
        if self._search.num_frames < 1:
            raise RuntimeError("expected an utterance of at least one frame, got none; call decode first")
        if not use_final_probs:
            raise RuntimeError("use_final_probs: expected True, because decode has counted the costs of final states")

    def final_relative_cost(self) -> float:
        """The cost of the best final state above that of the best token; inf if none is alive."""
        return self._search.final_relative_cost

    def num_frames_decoded(self) -> int:
        """The frames so far; -1 before the first utterance."""
        return self._search.num_frames
