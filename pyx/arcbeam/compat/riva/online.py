"""The decoder of streams."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from arcbeam.compat.riva.answers import Answers
from arcbeam.compat.riva.config import BatchedMappedOnlineDecoderCudaConfig
from arcbeam.compat.riva.results import MbrWord, NBestResult, PartialHypothesisEx
from arcbeam.compat.riva.settings import Settings
from arcbeam.core.errors import InputError
from arcbeam.core.show import shown_as

if TYPE_CHECKING:
    from arcbeam.ctc.hypothesis import Hypothesis
    from arcbeam.ctc.streams.stream import Stream
    from arcbeam.lattices.kaldi_lattice import KaldiLattice

    LatticeResult: TypeAlias = tuple[KaldiLattice, list[MbrWord] | None, list[NBestResult] | None]
    LatticeCallback: TypeAlias = Callable[[LatticeResult], None]


class _Channel:
    """What is known of a stream."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.stream: Stream | None = None
        self.callback: LatticeCallback | None = None


class BatchedMappedOnlineDecoderCuda:
    """Beam search over CTC log-probs that arrive in chunks, of many streams at a time.

    Parameters
    ----------
    config : BatchedMappedOnlineDecoderCudaConfig
        It is read now; later changes have no effect.
    wfst_path, symbol_table_path, num_tokens_including_blank, device
        As of :class:`BatchedMappedDecoderCuda`.

    Raises
    ------
    TypeError, ValueError, OSError, MissingDependencyError, CudaError, MemoryError
        As of :class:`BatchedMappedDecoderCuda`.
    """

    def __init__(
        self,
        config: BatchedMappedOnlineDecoderCudaConfig,
        wfst_path: str | os.PathLike[str],
        symbol_table_path: str | os.PathLike[str],
        num_tokens_including_blank: int,
        *,
        device: str = "auto",
    ) -> None:
        self._settings = Settings.of(config)
        self._answers = Answers(self._settings, wfst_path, symbol_table_path, num_tokens_including_blank, device)
        self._free = list(range(self._settings.num_channels))
        self._channels: dict[int, _Channel] = {}
        self._changed = threading.Condition()

    @property
    def device(self) -> str:
        """The device that decodes: ``"cpu"`` or ``"cuda:N"``."""
        return self._answers.decoder.device

    def try_init_corr_id(self, corr_id: int, wait_for_us: int = 0) -> bool:
        """Takes a channel for a stream, and says whether there was one.

        Parameters
        ----------
        corr_id : int
            The number of the stream. One that has a channel keeps it.
        wait_for_us : int
            How many microseconds to wait for a channel that another thread gives back.
        """
        with self._changed:
            if corr_id not in self._channels:
                if not self._changed.wait_for(lambda: bool(self._free), wait_for_us / 1e6):
                    return False
                self._channels[corr_id] = _Channel(self._free.pop())
        return True

    def set_lattice_callback(self, corr_id: int, callback: LatticeCallback) -> None:
        """Sets what is called after the last chunk of a stream, before `decode_batch` returns.

        Parameters
        ----------
        corr_id : int
        callback : callable
            It gets a tuple of the lattice, a `KaldiLattice`; the words, as `decode_mbr` of
            :class:`BatchedMappedDecoderCuda` returns them; and the n-best list. Without `use_lattice_postprocessor`
            the last two are None.

        Raises
        ------
        ValueError
            The stream has no channel.
        RuntimeError
            Its first chunk was decoded without a lattice.
        """
        channel = self._channel(corr_id)
        if channel.stream is not None:
            raise RuntimeError(f"corr_id {corr_id}: expected a callback before the first chunk, got one after it")
        channel.callback = callback

    def decode_batch(
        self,
        corr_ids: Sequence[int],
        logits: Sequence[Any],
        is_first_chunk: Sequence[bool],
        is_last_chunk: Sequence[bool],
    ) -> tuple[list[int], list[PartialHypothesisEx]]:
        """Decodes the next chunk of each of some streams.

        Parameters
        ----------
        corr_ids : sequence of int
            The streams, each once; they have channels by `try_init_corr_id`.
        logits : sequence of arrays [frames, columns]
            Natural-log probabilities, as of `decode_nbest`.
        is_first_chunk, is_last_chunk : sequence of bool
            Whether a stream begins with the chunk, and whether it ends: then its channel is free again.

        Returns
        -------
        channels : list of int
            The channel of each stream.
        hypotheses : list of PartialHypothesisEx
            The best path of each stream so far.

        Raises
        ------
        ValueError
            A stream without a channel, or twice; the first chunk of a stream that is not said to be it; lists of
            unequal lengths; NaN, +inf or another number of columns.
        """
        sizes = {len(values) for values in (corr_ids, logits, is_first_chunk, is_last_chunk)}
        if len(sizes) != 1:
            raise ValueError(f"decode_batch: expected four sequences of one length, got lengths {sorted(sizes)}")
        if not len(corr_ids):
            return [], []
        channels = [self._channel(corr_id) for corr_id in corr_ids]
        for corr_id, channel, is_first in zip(corr_ids, channels, is_first_chunk, strict=True):
            if channel.stream is None and not is_first:
                raise InputError("corr_id", f"{corr_id}: expected is_first_chunk=True with the first chunk, got False")
        if len(set(corr_ids)) != len(corr_ids):
            raise ValueError("corr_ids: expected each stream once in a call, got one twice")
        chunks = self._answers.taken(list(logits))
        for channel, is_first in zip(channels, is_first_chunk, strict=True):
            if is_first:
                channel.stream = self._new_stream(channel.callback)
        streams = [channel.stream for channel in channels if channel.stream is not None]
        partials = self._answers.decoder.decode_chunks(streams, chunks)
        found = [PartialHypothesisEx.of_partial(partial) for partial in partials]
        for corr_id, channel, is_last in zip(corr_ids, channels, is_last_chunk, strict=True):
            if is_last:
                self._end(corr_id, channel)
        return [channel.number for channel in channels], found

    def wait_for_lattice_callback(self) -> None:
        """Returns at once, because `decode_batch` has called all callbacks before it returned."""

    def _channel(self, corr_id: int) -> _Channel:
        """The channel of a stream; ValueError without one."""
        with self._changed:
            if corr_id not in self._channels:
                raise ValueError(f"corr_id: expected one that try_init_corr_id has returned True for, got {corr_id}")
            return self._channels[corr_id]

    def _new_stream(self, callback: LatticeCallback | None) -> Stream:
        confidence = not self._settings.minimizes_risk
        return self._answers.decoder.stream(
            lattice=callback is not None, confidence=callback is not None and confidence
        )

    def _end(self, corr_id: int, channel: _Channel) -> None:
        """Gives a channel back, and calls the callback of its stream."""
        stream, callback = channel.stream, channel.callback
        with self._changed:
            del self._channels[corr_id]
            self._free.append(channel.number)
            self._changed.notify()
        if stream is not None and callback is not None:
            callback(self._result(stream.finish()))

    def _result(self, hypothesis: Hypothesis) -> LatticeResult:
        """What a callback gets."""
        lattice = self._answers.kaldi_lattice(hypothesis)
        if not self._settings.has_words:
            return lattice, None, None
        return lattice, self._answers.words(hypothesis), self._answers.entries(hypothesis)

    def __repr__(self) -> str:
        return shown_as("BatchedMappedOnlineDecoderCuda", repr(self._answers.decoder))
