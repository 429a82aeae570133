"""What is known of the sentence of a transducer's stream after a chunk, and at its end."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from arcbeam.core.errors import Fault
from arcbeam.transducer.hypothesis import FIELDS, HypothesisForm, TransducerHypothesis, TransducerState

if TYPE_CHECKING:
    from arcbeam.transducer.growing_words import GrowingWords
    from arcbeam.words import Word


class TransducerPartial(TransducerHypothesis):
    """The tokens of a stream's sentence so far; at its end, those of the whole sentence.

    It has the attributes of a :class:`TransducerHypothesis`; frames and times count from the start of the stream.
    Greedy search takes no token back. With a beam the tokens are those of the best hypothesis of the frames so far, as
    if the sentence ended there, and so are `score`, `posterior`, its parts and `nbest`; a later result may have others
    in place of those that are not settled. Of all results of a sentence each settled word is put together once.

    Attributes
    ----------
    state : TransducerState or None
        The state from which the next chunk continues; None before the first. With a beam reading it is an
        :class:`UnsupportedError`: ``stream.save()`` has the state.
    num_frames : int
        Frames of the stream that have been decoded so far.
    first_frame : int
        The frame of the stream with which the sentence begins.
    is_final : bool
        Whether the sentence has ended, with the last chunk or at an endpoint.
    endpoint : str or None
        The name of the rule that has ended the sentence; None if none has.
    """

    def __init__(
        self,
        form: HypothesisForm,
        written: dict[str, np.ndarray],
        state: TransducerState | None,
        is_final: bool,
        error: Fault | None = None,
        first_frame: int = 0,
        endpoint: str | None = None,
        spelled: GrowingWords | None = None,
    ) -> None:
        self._form, self._take, self.error, self._spelled = form, None, error, spelled
        self.__dict__.update(dict.fromkeys(FIELDS), **written, state=state)
        self._is_at(0 if state is None else state.frames, is_final, first_frame, endpoint)

    def _is_at(self, num_frames: int, is_final: bool, first_frame: int, endpoint: str | None) -> None:
        """Sets where it is in its stream."""
        self.num_frames, self.is_final, self.first_frame, self.endpoint = num_frames, is_final, first_frame, endpoint

    @cached_property
    def text(self) -> str:
        """The text of the tokens so far."""
        return super().text if self._spelled is None else self._spelled.text(self.tokens, self._num_settled)

    @cached_property
    def num_stable(self) -> int:
        """How many words of the text, from the first, stay whatever follows.

        All but the last one, to which the next token may add; that one, too, after a space. With a beam, of the words
        of settled tokens: those that the strongest paths of all hypotheses begin with, on the same frames. If the
        tokenizer is a function, it is taken to put pieces together from left to right, as SentencePiece does. In the
        final result all words are stable.

        Raises
        ------
        ValueError
            The decoder was given no tokenizer.
        """
        if self._spelled is None or self.is_final:
            return sum(map(bool, self.stable_text.split(" ")))  # a function may put spaces anywhere
        return self._spelled.num_closed(self._settled)

    @cached_property
    def stable_text(self) -> str:
        """The text of the words that stay: all later results begin with it."""
        if self.is_final:
            return self.text
        if self._spelled is not None:
            return self._spelled.closed_text(self._settled)
        settled = self._settled
        text = self.text if len(settled) == len(self.tokens) else self._form.detokenize(settled.tolist())  # type: ignore[misc]
        return text.rpartition(" ")[0]

    @property
    def _settled(self) -> np.ndarray:
        """The tokens that no later frame changes."""
        return self.tokens[: self._num_settled]

    @property
    def stable_words(self) -> list[Word]:
        """The first words, which are never taken back: all later results of the sentence begin with them.

        Raises
        ------
        ValueError
            As of ``words``.
        """
        return self.words[: self.num_stable]

    def to_dict(self) -> dict[str, Any]:
        """All attributes but `state` as plain Python values for JSON; None for an attribute that is not there."""
        stable = self.num_stable if self._has_text() else None
        ours = {name: getattr(self, name) for name in ("is_final", "num_frames", "first_frame", "endpoint")}
        return super().to_dict() | ours | {"num_stable": stable}

    def __getstate__(self) -> dict[str, Any]:
        _ = self._has_text() and self.num_stable, self._has_text() and self.stable_text  # derived now
        return super().__getstate__()

    def __repr__(self) -> str:
        if self.error is not None:
            return f"{type(self).__name__}(error={self.error!r})"
        what = repr(self.text) if self._has_text() else f"{len(self.tokens)} tokens"
        how = f"is_final={self.is_final}" if self.endpoint is None else f"endpoint={self.endpoint!r}"
        return f"{type(self).__name__}({what}, {how})"
