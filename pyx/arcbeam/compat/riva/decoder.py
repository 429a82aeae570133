"""The decoder of batches."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from arcbeam.compat.riva.answers import Answers
from arcbeam.compat.riva.config import BatchedMappedDecoderCudaConfig
from arcbeam.compat.riva.results import MbrWord, NBestResult
from arcbeam.compat.riva.settings import Settings
from arcbeam.compat.tensors import on_host
from arcbeam.core.checks import check_count
from arcbeam.core.show import shown_as


class BatchedMappedDecoderCuda:
    """Beam search over CTC log-probs in a graph, with n-best lists, words of minimum Bayes risk, and lattices.

    Parameters
    ----------
    config : BatchedMappedDecoderCudaConfig
        It is read now; later changes have no effect.
    wfst_path : path
        An OpenFst file, whose input label l reads column l - 1.
    symbol_table_path : path
        The words: a name and its number a line.
    num_tokens_including_blank : int
        The columns of the log-probs.
    device : str
        As of `DecoderOptions`. "auto" is the GPU that torch has selected, or the first, if it can decode; else the CPU,
        with the same results.

    Raises
    ------
    TypeError, ValueError
        An option out of its range, or one that this search cannot follow.
    FormatError, GraphError, OSError
        As of `Graph.load`.
    MissingDependencyError, CudaError, CudaOutOfMemoryError, CapacityError
        As of `CtcDecoder`.
    """

    def __init__(
        self,
        config: BatchedMappedDecoderCudaConfig,
        wfst_path: str | os.PathLike[str],
        symbol_table_path: str | os.PathLike[str],
        num_tokens_including_blank: int,
        *,
        device: str = "auto",
    ) -> None:
        if not isinstance(config, BatchedMappedDecoderCudaConfig):
            raise TypeError(
                f"config: expected a BatchedMappedDecoderCudaConfig of arcbeam.compat.riva, got {type(config).__name__}"
            )
        check_count("n_input_per_chunk", config.n_input_per_chunk, or_none="")
        settings = Settings.of(config.online_opts)
        self._answers = Answers(settings, wfst_path, symbol_table_path, num_tokens_including_blank, device)

    @property
    def device(self) -> str:
        """The device that decodes: ``"cpu"`` or ``"cuda:N"``."""
        return self._answers.decoder.device

    def decode_nbest(self, logits: Any, logits_lengths: Any) -> list[list[NBestResult]]:
        """Decodes a batch.

        Parameters
        ----------
        logits : array [batch, frames, columns], or list of arrays [frames, columns]
            Natural-log probabilities, float32, of torch, NumPy or anything with DLPack, on the GPU that decodes or in
            the memory of the CPU. Those of a GPU are copied if the CPU decodes.
        logits_lengths : array of int64 [batch]
            The frames of each utterance.

        Returns
        -------
        list of list of NBestResult
            For each utterance at most `nbest` distinct word sequences, best first; none if the search died.

        Raises
        ------
        TypeError, ValueError
            Values of another type or shape, NaN or +inf, lengths that do not fit; or `use_lattice_postprocessor` is
            False.
        """
        return self._answers.nbest(*self._taken(logits, logits_lengths))

    def decode_mbr(self, logits: Any, logits_lengths: Any) -> list[list[MbrWord]]:
        """Decodes a batch; arguments and errors are those of `decode_nbest`.

        Returns
        -------
        list of list of (str, float, float, float)
            For each utterance its words: (word, begin in seconds, end in seconds, confidence).
        """
        return self._answers.mbr(*self._taken(logits, logits_lengths))

    def decode_write_lattice(
        self, logits: Any, logits_lengths: Any, keys: Sequence[str], output_wspecifier: str
    ) -> None:
        """Decodes a batch, and writes its lattices.

        Parameters
        ----------
        logits, logits_lengths
            As of `decode_nbest`.
        keys : sequence of str [batch]
            The names of the utterances.
        output_wspecifier : str
            As Kaldi writes it: ``"ark:FILE"``, ``"ark,t:FILE"``, ``"ark,scp:ARCHIVE,INDEX"``.

        Raises
        ------
        TypeError, ValueError, OSError
            As of `decode_nbest` and of `write_lattices`; or another number of keys than of utterances.
        """
        self._answers.write_lattices(*self._taken(logits, logits_lengths), list(keys), output_wspecifier)

    def _taken(self, logits: Any, lengths: Any) -> tuple[Any, Any]:
        """The log-probs on the decoder's device, and the lengths as NumPy has them."""
        if not isinstance(logits, (list, tuple)) and getattr(logits, "ndim", None) != 3:
            got = f"{getattr(logits, 'ndim', None)} dimensions of a {type(logits).__name__}"
            raise ValueError(f"logits: expected [batch, frames, columns] or a list of [frames, columns], got {got}")
        return self._answers.taken(logits), on_host(lengths)

    def __repr__(self) -> str:
        return shown_as("BatchedMappedDecoderCuda", repr(self._answers.decoder))
