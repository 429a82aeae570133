"""Streams of speech: utterances that arrive in chunks, and what is known of them after each chunk."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from arcbeam.calls import lists_options
from arcbeam.ctc.hypothesis import Hypothesis, Paths, Results
from arcbeam.words import Word

if TYPE_CHECKING:
    from arcbeam.ctc._decode import CpuStream
    from arcbeam.ctc.boost import Boost
    from arcbeam.ctc.decoder import CtcDecoder

NOTHING_SAID = Paths(
    np.empty(0, np.uint32), np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1), np.zeros(1, np.bool_),
    np.ones(1, np.bool_),
)  # fmt: skip


class Partial(Hypothesis):
    """The best path of a stream so far; behind its last chunk, that of the whole utterance.

    It has the attributes of a :class:`Hypothesis` but n-best lists, confidences and lattices. Before the last chunk no
    final weight is counted, ``reached_final`` is False, and what a boost has given for an unfinished phrase is taken
    off.

    Attributes
    ----------
    num_frames : int
        Frames of all chunks so far.
    is_final : bool
        Whether this was the last chunk; the path is then that of :meth:`CtcDecoder.decode` for the whole utterance.
    """

    def __init__(
        self, results: Results, index: int, settled: npt.NDArray[np.uint32], num_frames: int, is_final: bool
    ) -> None:
        super().__init__(results, index)
        self._settled = settled
        self.num_frames, self.is_final = num_frames, is_final

    def _read(self) -> dict[str, Any]:
        had = "arcs" in self.__dict__
        read = super()._read()
        if not had:
            read["arcs"] = self.__dict__["arcs"] = np.concatenate((self._settled, read["arcs"]))
        return read

    @cached_property
    def num_stable(self) -> int:
        """How many of ``words``, from the first, keep their text and times whatever follows.

        A word is stable once all paths that are still alive have written it, and the word behind it, at the same
        frames. In the final result all words are stable.
        """
        if self.is_final:
            return len(self.words)
        return self._graph.word_reader.num_stable(self._settled)

    @property
    def stable_words(self) -> list[Word]:
        """The first words, which are never taken back: all later results begin with them."""
        return self.words[: self.num_stable]

    @property
    def stable_text(self) -> str:
        """The text of ``stable_words``."""
        return " ".join(word.word for word in self.stable_words)

    def to_dict(self) -> dict[str, Any]:
        """All attributes as plain Python values for JSON."""
        ours = {"is_final": self.is_final, "num_frames": self.num_frames, "num_stable": self.num_stable}
        return super().to_dict() | ours

    def __getstate__(self) -> dict[str, Any]:
        assert self.num_stable >= 0  # derived now
        state = super().__getstate__()
        del state["_settled"]
        return state

    def __repr__(self) -> str:
        if self.error is not None:
            return f"Partial(error={self.error!r})"
        how = "is_final=True" if self.is_final else f"num_stable={self.num_stable}"
        return f"Partial({self.text!r}, {how})"


class Stream:
    """An utterance that arrives in chunks; :meth:`CtcDecoder.stream` makes one.

    Chunks may have any length, streams may be decoded in any company, and no result depends on either: the final result
    has the bytes of the whole utterance decoded at once. Between chunks a stream keeps its live paths, which do not
    grow with its length, and the arcs that all of them share, 4 to 6 bytes each. It goes when nothing refers to it.

    Attributes
    ----------
    num_settled : int
        The arcs that all later results begin with.
    """

    def __init__(self, decoder: CtcDecoder, state: CpuStream, results: Results, columns: int) -> None:
        self._decoder, self._state, self._columns = decoder, state, columns
        self._settled = np.empty(0, np.uint32)  # with room behind num_settled
        self.num_settled = 0
        self._boost = results.boost(0)
        self._partial = Partial(results, 0, self._settled, 0, False)

    @property
    def num_frames(self) -> int:
        """Frames of all chunks so far."""
        return int(self._state.frames)

    @property
    def boost(self) -> Boost | None:
        """The words and phrases that are made likelier."""
        return self._boost

    @property
    def partial(self) -> Partial:
        """The last result."""
        return self._partial

    @property
    def is_finished(self) -> bool:
        """Whether the stream has had its last chunk."""
        return self._partial.is_final

    @lists_options()
    def decode_chunk(self, log_probs: Any, *, last: bool = False) -> Partial:
        """Decodes the next chunk of this stream alone: ``decoder.decode_chunks([stream], [log_probs], last=last)[0]``.

        Parameters
        ----------
        log_probs : array [frames, columns]
        last : bool

        Returns
        -------
        Partial
        """
        return self._decoder.decode_chunks([self], [log_probs], last=last)[0]

    def finish(self) -> Partial:
        """Ends the utterance, and returns its final result.

        Raises
        ------
        ValueError
            The stream was finished before.
        """
        return self.decode_chunk(np.empty((0, self._columns), np.float32), last=True)

    def _fault(self) -> str | None:
        """Why the stream cannot take another chunk; None if it can."""
        if self.is_finished:
            return "expected no chunk behind the last; decoder.stream() begins another stream"
        if not self._state.is_whole:
            return "it was interrupted in the middle of a chunk and cannot go on; decoder.stream() begins another"
        return None

    def _progress(self) -> int:
        """A number that changes with every frame that the search has begun."""
        return int(self._state.frames)

    def _refused(self, results: Results, index: int) -> Partial:
        """The result of a chunk that has an error; the stream is as before."""
        return Partial(results, index, np.empty(0, np.uint32), self.num_frames, False)

    def _take(self, results: Results, index: int, last: bool) -> Partial:
        """Makes the result of the chunk that has been decoded."""
        found = self._state.take_settled()
        count = self.num_settled + len(found)
        if count > len(self._settled):  # results keep the array that they have, which is not changed where they read it
            grown = np.empty(count + count // 2, np.uint32)
            grown[: self.num_settled] = self._settled[: self.num_settled]
            self._settled = grown
        self._settled[self.num_settled : count] = found
        self.num_settled = count
        self._partial = Partial(results, index, self._settled[:count], self.num_frames, last)
        return self._partial

    def __repr__(self) -> str:
        return f"Stream({self.num_frames} frames, {self._partial!r})"
