"""Streams of speech: encoder output that arrives in chunks, and the tokens that are known after each chunk."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from arcbeam.core.calls import lists_options
from arcbeam.core.checks import check_bool
from arcbeam.core.errors import Fault
from arcbeam.streams._any_stream import AnyStream
from arcbeam.transducer.hypothesis import FIELDS, HypothesisForm, TransducerHypothesis, TransducerState
from arcbeam.transducer.sentences import End, TransducerRules
from arcbeam.transducer.stream_state import SavedStream, read, write

if TYPE_CHECKING:
    from arcbeam.streams.endpoints import Endpoint
    from arcbeam.transducer.boosting_tree import BoostingTree
    from arcbeam.transducer.decoder import TransducerDecoder
    from arcbeam.transducer.growing_words import GrowingWords
    from arcbeam.words import Word

BROKEN = "reset was interrupted while frames waited, and it cannot go on; decoder.stream() begins another"
PIECE = 256  # frames of what waits that are decoded together: they are read again for each sentence that they hold


class TransducerPartial(TransducerHypothesis):
    """The tokens of a stream's sentence so far; at its end, those of the whole sentence.

    It has the attributes of a :class:`TransducerHypothesis`; frames and times count from the start of the stream.
    Greedy search takes no token back, and of all results of a sentence each word is put together once.

    Attributes
    ----------
    state : TransducerState or None
        The state from which the next chunk goes on; None before the first.
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
        self.num_frames, self.is_final = 0 if state is None else state.frames, is_final
        self.first_frame, self.endpoint = first_frame, endpoint

    @cached_property
    def text(self) -> str:
        """The text of the tokens so far."""
        return super().text if self._spelled is None else self._spelled.text(self.tokens)

    @cached_property
    def num_stable(self) -> int:
        """How many words of the text, from the first, stay whatever follows.

        All but the last one, to which the next token may add; that one, too, behind a space. If the tokenizer is a
        function, it is taken to put pieces together from left to right, as SentencePiece does. In the final result all
        words are stable.

        Raises
        ------
        ValueError
            The decoder was given no tokenizer.
        """
        if self._spelled is None or self.is_final:
            return sum(map(bool, self.stable_text.split(" ")))  # a function may put spaces anywhere
        return self._spelled.num_closed(self.tokens)

    @cached_property
    def stable_text(self) -> str:
        """The text of the words that stay: all later results begin with it."""
        if self.is_final:
            return self.text
        return self.text.rpartition(" ")[0] if self._spelled is None else self._spelled.closed_text(self.tokens)

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
            return f"TransducerPartial(error={self.error!r})"
        what = repr(self.text) if self._has_text() else f"{len(self.tokens)} tokens"
        how = f"is_final={self.is_final}" if self.endpoint is None else f"endpoint={self.endpoint!r}"
        return f"TransducerPartial({what}, {how})"


class TransducerStream(AnyStream):
    """Speech whose encoder output arrives in chunks, sentence by sentence; :meth:`TransducerDecoder.stream` makes one.

    Chunks may have any length, streams may be decoded in any company, and no result depends on either: in ``float32``
    the final result of a sentence has the bytes of all its frames decoded at once. Between chunks a stream keeps a
    :class:`TransducerState`, and the tokens of its sentence, 20 to 24 bytes each; and its words, once they or their
    text are looked at. It goes when nothing refers to it.
    """

    def __init__(
        self, decoder: TransducerDecoder, boost: BoostingTree | None, endpoint: Endpoint | None, form: HypothesisForm
    ) -> None:
        self._decoder, self._endpoint, self._form = decoder, endpoint, form
        self._rules = None if endpoint is None else TransducerRules.of(endpoint, decoder.options.frame_shift)
        self._waiting: list[npt.NDArray[np.float32]] = []  # frames after an endpoint
        self._last_came = False
        self._begin(boost, None)

    def _begin(self, boost: BoostingTree | None, start: TransducerState | None) -> None:
        """Begins a sentence, from the state at its start; None at the start of the stream."""
        form = self._form
        absent = {"durations": not form.has_durations, "confidence": not form.has_confidence}
        self._boost, self._state = boost, start
        self._written = {name: np.empty(0, kind) for name, kind in FIELDS.items() if not absent.get(name)}
        self._count = 0  # of tokens; the arrays have room behind them
        self._first_frame = 0 if start is None else start.frames
        self._spelled = form.spelled()
        self._show(False, 0)

    @property
    def num_frames(self) -> int:
        """Frames of the stream that have been decoded so far."""
        return self._partial.num_frames

    @property
    def num_waiting(self) -> int:
        """Frames behind an endpoint, which wait until `reset` begins the next sentence."""
        return sum(map(len, self._waiting))

    @property
    def boost(self) -> BoostingTree | None:
        """The phrases that are made likelier."""
        return self._boost

    @property
    def endpoint(self) -> Endpoint | None:
        """The rules that end sentences."""
        return self._endpoint

    @property
    def partial(self) -> TransducerPartial:
        """The last result."""
        return self._partial

    @property
    def is_finished(self) -> bool:
        """Whether the stream has had its last chunk, and no frame of it waits."""
        return self._last_came and not self._waiting

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
        """Ends the speech, and returns the final result of the sentence.

        If the sentence has ended at an endpoint before, and frames wait, it is that result; :meth:`reset` goes on with
        the frames until ``is_finished``.

        Raises
        ------
        ValueError
            The stream was finished before.
        """
        return self.decode_chunk(np.empty((0, self._decoder.features), np.float32), last=True)

    @lists_options()
    def reset(self, *, boost: BoostingTree | None = None, keep_history: bool = False) -> TransducerPartial:
        """Begins the next sentence with the frames that wait, and returns its first result.

        Time goes on: frames and times of tokens count from the beginning of the stream. The prediction network, the
        n-gram model and the tree begin anew. If the sentence before has not ended, no final result of it is made;
        :meth:`finish` makes one. After the last chunk, more speech may follow.

        Parameters
        ----------
        boost : BoostingTree, optional
            The tree from now on; None keeps the one that the stream has.
        keep_history : bool
            Whether the n-gram model goes on with the last tokens, as far as it sees back, instead of with the beginning
            of a sentence. The prediction network begins anew.

        Returns
        -------
        TransducerPartial
            Where frames have waited, the result after them, or at the next endpoint among them; then frames may wait
            again, and another `reset` goes on.

        Raises
        ------
        ValueError
            `keep_history` without an n-gram model; or an earlier `reset` was interrupted. Or the network's output was
            not finite for frames that waited: these are left out, and the stream goes on.
        TypeError, MemoryError, CudaOutOfMemoryError, CudaError
            As of :meth:`TransducerDecoder.stream` and :meth:`TransducerDecoder.decode_chunks`.

        Examples
        --------
        >>> for chunk in chunks:
        ...     partial = stream.decode_chunk(chunk)
        ...     while partial.endpoint:
        ...         print(partial.text)
        ...         partial = stream.reset()
        """
        decoder = self._decoder
        check_bool("keep_history", keep_history)
        if keep_history and decoder._ngram_lm is None:
            raise ValueError(
                "keep_history: expected False, because the decoder has no n-gram model whose history could go on; make "
                "it with ngram_lm_model=..."
            )
        tree = self._boost if boost is None else decoder._tree(boost)
        with decoder._turn():
            self._check_whole()
            start = decoder._start(tree, self.num_frames)  # before anything that waits is taken out
            if keep_history and self._state is not None:
                start = replace(start, ngram_lm=self._state.ngram_lm)
            waiting, ended = self._waiting, bool(self._waiting) and self._last_came
            pieces = deque(rows[at : at + PIECE] for rows in waiting for at in range(0, len(rows), PIECE))
            wrong: list[ValueError] = []
            try:
                self._waiting, self._last_came = [], False
                self._begin(tree, start)
                while pieces and not self._is_stopped:
                    before, refused = self._progress(), len(wrong)
                    try:
                        decoder._decode_next([self], {}, [pieces[0]], None, [False], None, "raise")
                    except ValueError as error:
                        wrong.append(error)
                    finally:
                        if self._progress() != before or len(wrong) != refused:
                            pieces.popleft()
                if ended and not pieces:
                    nothing = np.empty((0, decoder.features), np.float32)
                    decoder._decode_next([self], {}, [nothing], None, [True], None, "raise")
            finally:
                self._waiting += pieces
                self._last_came |= ended and bool(self._waiting)
        if wrong:
            raise wrong[0]
        return self._partial

    def save(self) -> bytes:
        """The state of the stream as bytes, from which :meth:`TransducerDecoder.restore` makes a stream that goes on.

        In ``float32`` they are the same whatever chunks, threads or company have led to it. They name, but do not hold,
        the network, the n-gram model and the tree. The stream itself goes on as if nothing had happened.
        """
        decoder = self._decoder
        with decoder._turn():
            self._check_whole()
            waiting = [np.empty((0, decoder.features), np.float32), *self._waiting]
            written = {name: array[: self._count] for name, array in self._written.items()}
            kept = SavedStream(
                written,
                decoder._start(self._boost, self._first_frame) if self._state is None else self._state,
                self._first_frame,
                self._fired,
                self._endpoint,
                np.concatenate(waiting),
                self._last_came,
            )
            return write(kept, decoder, self._boost)

    @classmethod
    def _restored(cls, decoder: TransducerDecoder, data: bytes, boost: BoostingTree | None) -> Self:
        kept = read(data, decoder, boost)
        made = cls(decoder, boost, kept.endpoint, decoder._form)
        made._begin(boost, replace(kept.state, frames=kept.first_frame))
        made._written, made._count, made._state = kept.written, len(kept.written["tokens"]), kept.state
        made._waiting = [kept.waiting] if len(kept.waiting) else []
        made._last_came = kept.last_came
        made._show(kept.last_came or kept.fired > 0, kept.fired)
        return made

    @property
    def _is_stopped(self) -> bool:
        """Whether the sentence has ended at an endpoint."""
        return self._partial.endpoint is not None

    @property
    def _fired(self) -> int:
        """The number of the rule that has ended the sentence, from 1; 0 if it goes on."""
        if self._endpoint is None or self._partial.endpoint is None:
            return 0
        return 1 + list(self._endpoint.rules).index(self._partial.endpoint)

    @property
    def _sentence_frames(self) -> int:
        """Frames of the sentence that have been decoded."""
        return self.num_frames - self._first_frame

    def _first_end(self, found: TransducerHypothesis) -> End | None:
        """Where the sentence ends within a chunk that has been decoded; None if it does not."""
        if self._rules is None:
            return None
        known = max(0, self._count - 1)  # the last token before is one that trailing silence may follow
        tokens_on = np.concatenate([self._written["frames"][known : self._count], found.frames]) - self._first_frame
        durations = None
        if found.durations is not None:
            durations = np.concatenate([self._written["durations"][known : self._count], found.durations])
        return self._rules.first_end(
            tokens_on, durations, self._sentence_frames, found.state.frames - self._first_frame
        )

    def _fault(self) -> str | None:
        """Why the stream cannot take another chunk; None if it can."""
        if self._last_came:
            return (
                "expected no chunk behind the last; stream.reset() begins the next sentence, decoder.stream() another "
                "stream"
            )
        return BROKEN if self._waiting and not self._is_stopped else None

    def _check_whole(self) -> None:
        if self._waiting and not self._is_stopped:
            raise ValueError(f"stream: {BROKEN}")

    def _progress(self) -> int:
        """A number that changes with every frame that has been taken."""
        return self.num_frames + self.num_waiting

    def _refused(self, error: Fault) -> TransducerPartial:
        """The result of a chunk that has an error; the stream is as before."""
        nothing = {name: array[:0] for name, array in self._written.items()}
        return TransducerPartial(
            self._form, nothing, self._state, False, error, self._first_frame, None, self._form.spelled()
        )

    def _take(self, found: TransducerHypothesis, last: bool, fired: int = 0) -> TransducerPartial:
        """Makes the result of the chunk that has been decoded, whose sentence a rule may have ended."""
        count = self._count + len(found.tokens)
        if count > len(self._written["tokens"]):  # results keep the arrays that they have, whose beginnings stay
            self._written = {name: self._grown(array, count + count // 2) for name, array in self._written.items()}
        for name, array in self._written.items():
            array[self._count : count] = getattr(found, name)
        self._count, self._state = count, found.state
        self._last_came |= last
        return self._show(last or fired > 0, fired)

    def _show(self, is_final: bool, fired: int) -> TransducerPartial:
        """The result with the tokens so far."""
        written = {name: array[: self._count] for name, array in self._written.items()}
        name = None if self._endpoint is None or not fired else list(self._endpoint.rules)[fired - 1]
        self._partial = TransducerPartial(
            self._form, written, self._state, is_final, None, self._first_frame, name, self._spelled
        )
        return self._partial

    def _grown(self, array: np.ndarray, room: int) -> np.ndarray:
        grown = np.empty(room, array.dtype)
        grown[: self._count] = array[: self._count]
        return grown

    def __repr__(self) -> str:
        waiting = f", {self.num_waiting} more wait" if self._waiting else ""
        return f"TransducerStream({self.num_frames} frames{waiting}, {self._partial!r})"
