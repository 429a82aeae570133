"""Streams of speech: encoder output that arrives in chunks, and the tokens that are known after each chunk."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from arcbeam._any_stream import AnyStream
from arcbeam.calls import lists_options
from arcbeam.transducer.hypothesis import HypothesisForm, TransducerHypothesis, TransducerState

if TYPE_CHECKING:
    from arcbeam.transducer.boosting_tree import BoostingTree
    from arcbeam.transducer.decoder import TransducerDecoder

FIELDS = {
    "tokens": np.int32, "frames": np.int64, "durations": np.int32, "log_probs": np.float32, "confidence": np.float32,
}  # fmt: skip


class TransducerPartial(TransducerHypothesis):
    """The tokens of a stream so far; behind its last chunk, those of the whole utterance.

    It has the attributes of a :class:`TransducerHypothesis`, all of them counted from the start of the stream. Greedy
    search takes no token back.

    Attributes
    ----------
    state : TransducerState or None
        The state from which the next chunk goes on; None before the first.
    num_frames : int
        Frames of all chunks so far.
    is_final : bool
        Whether this was the last chunk.
    """

    def __init__(
        self,
        form: HypothesisForm,
        written: dict[str, np.ndarray],
        state: TransducerState | None,
        is_final: bool,
        error: ValueError | None = None,
    ) -> None:
        self._form, self._take, self.error = form, None, error
        self.__dict__.update(dict.fromkeys(FIELDS), **written, state=state)
        self.num_frames, self.is_final = 0 if state is None else state.frames, is_final

    @cached_property
    def num_stable(self) -> int:
        """How many words of the text, from the first, stay whatever follows.

        All but the last one, to which the next token may add, if the tokenizer puts its pieces together from left to
        right, as SentencePiece does. In the final result all words are stable.

        Raises
        ------
        ValueError
            The decoder was given no tokenizer.
        """
        return len(self.stable_text.split())

    @property
    def stable_text(self) -> str:
        """The text of the words that stay: all later results begin with it."""
        return self.text if self.is_final else self.text.rpartition(" ")[0]

    def to_dict(self) -> dict[str, Any]:
        """All attributes but `state` as plain Python values for JSON; None for an attribute that is not there."""
        stable = self.num_stable if self._has_text() else None
        ours = {"is_final": self.is_final, "num_frames": self.num_frames, "num_stable": stable}
        return super().to_dict() | ours

    def __repr__(self) -> str:
        if self.error is not None:
            return f"TransducerPartial(error={self.error!r})"
        what = repr(self.text) if self._has_text() else f"{len(self.tokens)} tokens"
        return f"TransducerPartial({what}, is_final={self.is_final})"


class TransducerStream(AnyStream):
    """An utterance whose encoder output arrives in chunks; :meth:`TransducerDecoder.stream` makes one.

    Chunks may have any length, streams may be decoded in any company, and no result depends on either: in ``float32``
    the final result has the bytes of the whole utterance decoded at once. Between chunks a stream keeps a
    :class:`TransducerState`, and its tokens, 20 to 24 bytes each. It goes when nothing refers to it.
    """

    def __init__(self, decoder: TransducerDecoder, boost: BoostingTree | None, form: HypothesisForm) -> None:
        self._decoder, self._boost, self._form = decoder, boost, form
        absent = {"durations": not form.has_durations, "confidence": not form.has_confidence}
        self._written = {name: np.empty(0, kind) for name, kind in FIELDS.items() if not absent.get(name)}
        self._count = 0  # of tokens; the arrays have room behind them
        self._partial = TransducerPartial(form, self._written, None, False)

    @property
    def num_frames(self) -> int:
        """Frames of all chunks so far."""
        return self._partial.num_frames

    @property
    def boost(self) -> BoostingTree | None:
        """The phrases that are made likelier."""
        return self._boost

    @property
    def partial(self) -> TransducerPartial:
        """The last result."""
        return self._partial

    @property
    def is_finished(self) -> bool:
        """Whether the stream has had its last chunk."""
        return self._partial.is_final

    @lists_options()
    def decode_chunk(self, encoder_output: Any, *, last: bool = False) -> TransducerPartial:
        """Decodes the next chunk of this stream alone.

        It is ``decoder.decode_chunks([stream], [encoder_output], last=last)[0]``.

        Parameters
        ----------
        encoder_output : array [frames, features]
        last : bool

        Returns
        -------
        TransducerPartial
        """
        return self._decoder.decode_chunks([self], [encoder_output], last=last)[0]

    def finish(self) -> TransducerPartial:
        """Ends the utterance, and returns its final result.

        Raises
        ------
        ValueError
            The stream was finished before.
        """
        return self.decode_chunk(np.empty((0, self._decoder.features), np.float32), last=True)

    def _fault(self) -> str | None:
        """Why the stream cannot take another chunk; None if it can."""
        if self.is_finished:
            return "expected no chunk behind the last; decoder.stream() begins another stream"
        return None

    def _progress(self) -> int:
        """A number that changes with every frame that has been decoded."""
        return self.num_frames

    def _refused(self, error: ValueError) -> TransducerPartial:
        """The result of a chunk that has an error; the stream is as before."""
        nothing = {name: array[:0] for name, array in self._written.items()}
        return TransducerPartial(self._form, nothing, self._partial.state, False, error)

    def _take(self, found: TransducerHypothesis, last: bool) -> TransducerPartial:
        """Makes the result of the chunk that has been decoded."""
        count = self._count + len(found.tokens)
        if count > len(self._written["tokens"]):  # results keep the arrays that they have, whose beginnings stay
            self._written = {name: self._grown(array, count + count // 2) for name, array in self._written.items()}
        for name, array in self._written.items():
            array[self._count : count] = getattr(found, name)
        self._count = count
        written = {name: array[:count] for name, array in self._written.items()}
        self._partial = TransducerPartial(self._form, written, found.state, last)
        return self._partial

    def _grown(self, array: np.ndarray, room: int) -> np.ndarray:
        grown = np.empty(room, array.dtype)
        grown[: self._count] = array[: self._count]
        return grown

    def __repr__(self) -> str:
        return f"TransducerStream({self.num_frames} frames, {self._partial!r})"
