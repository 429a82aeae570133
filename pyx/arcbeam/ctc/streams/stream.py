"""Streams of speech, which arrives in chunks, sentence by sentence."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from arcbeam.core.calls import lists_options
from arcbeam.core.checks import check_bool
from arcbeam.core.errors import Fault
from arcbeam.ctc.boost.boost import Boost, opened
from arcbeam.ctc.lattice._lattices import Lattices
from arcbeam.ctc.results import Asked, Paths
from arcbeam.ctc.streams._rounds import Sentence, SentenceStream
from arcbeam.ctc.streams.endpoint import EndpointRules
from arcbeam.ctc.streams.partial import Partial
from arcbeam.ctc.streams.pending import by_asked
from arcbeam.ctc.streams.saved_lattice import SavedEnd, ended
from arcbeam.ctc.streams.sentences import Before, Heard, SavedSearch, Waiting
from arcbeam.ctc.streams.state import SEARCH, StreamState, read, write
from arcbeam.streams.endpoints import Endpoint

if TYPE_CHECKING:
    from arcbeam.arrays.intake import Decoded
    from arcbeam.core.confidence import ConfidenceMethod
    from arcbeam.ctc.decoder import CtcDecoder

BROKEN = "it was interrupted in the middle of a chunk and cannot go on; decoder.stream() begins another"
NOTHING_HEARD = Heard()
NOTHING_SAID = Paths(
    np.empty(0, np.uint32), np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1), np.zeros(1, np.bool_),
    np.ones(1, np.bool_),
)  # fmt: skip
REFUSED = NOTHING_SAID._replace(complete=np.zeros(1, np.bool_))


class Stream(SentenceStream):
    """Speech that arrives in chunks, sentence by sentence; :meth:`CtcDecoder.stream` makes one.

    Chunks may have any length, streams may be decoded in any company, and no result depends on either: the final result
    of a sentence has the bytes of all its frames decoded at once. Between chunks a stream keeps its live paths, which
    do not grow with its length, and of its sentence the arcs that all of them share, up to 8 bytes each, with their
    text once that is looked at; and, if they are asked for, the confidences of its frames, up to 8 bytes each, and its
    lattice, until the next sentence begins. It goes when nothing refers to it.

    Attributes
    ----------
    num_settled : int
        The arcs that all later results of the sentence begin with.
    """

    def __init__(
        self,
        decoder: CtcDecoder,
        boost: Boost | None,
        endpoint: Endpoint | None,
        asked: Asked | None = None,
        posteriors: bool = False,
        interim_answers: bool = False,
        method: ConfidenceMethod | None = None,
    ) -> None:
        self._decoder, self._endpoint, self._asked, self._posteriors = decoder, endpoint, asked, posteriors
        self._method = method
        options, graph = decoder.options, decoder.graph
        self._rules = None if endpoint is None else EndpointRules.of(endpoint, graph, options.frame_shift)
        self.interim_answers = interim_answers
        self._begin(boost, 0, NOTHING_HEARD)

    def _begin(
        self,
        boost: Boost | None,
        first_frame: int,
        heard: Heard,
        saved: SavedSearch | None = None,
        confidences: npt.NDArray[np.float32] | None = None,
    ) -> None:
        """Begins a sentence, or goes on with the one that was saved, whose frames have these confidences."""
        state = self._decoder._new_sentence(boost, self._rules, heard, saved, self._asked)
        frames, settled = (0, None) if saved is None else (saved.frames, saved.settled)
        results = self._decoder._results(NOTHING_SAID, {})
        self._begin_sentence(state, self._new(boost, first_frame, heard, settled, confidences), frames, results)

    def _new(
        self,
        boost: Boost | None,
        first_frame: int,
        heard: Heard = NOTHING_HEARD,
        settled: npt.NDArray[np.uint32] | None = None,
        confidences: npt.NDArray[np.float32] | None = None,
    ) -> Sentence:
        graph, options = self._decoder.graph, self._decoder.options
        return Sentence(
            lambda: opened(graph, boost).word_reader,
            boost,
            first_frame,
            heard,
            self._endpoint,
            options.posterior_scale if self._posteriors else None,
            None if self._method is None else options.confidence_aggregation,
            settled,
            confidences,
        )

    @property
    def num_waiting(self) -> int:
        """Frames behind an endpoint, which wait until `reset` begins the next sentence."""
        return sum(len(waiting.rows) for waiting in self._waiting)

    @property
    def boost(self) -> Boost | None:
        """The words and phrases that are made likelier."""
        return self._sentence.boost

    @property
    def endpoint(self) -> Endpoint | None:
        """The rules that end sentences."""
        return self._endpoint

    @property
    def interim_answers(self) -> bool:
        """Whether results before the end of a sentence have what the stream was asked for, too; it may be set.

        It counts for the chunks that are decoded from then on. ``decode_chunk`` without frames gives the answers so far
        of what has been decoded before. Setting it raises a ValueError if the stream was asked for nothing but its best
        path.
        """
        return self._interim_answers

    @interim_answers.setter
    def interim_answers(self, wanted: bool) -> None:
        check_bool("interim_answers", wanted)
        if wanted and self._asked is None:
            raise ValueError(
                "interim_answers: expected a stream that was asked for nbest, confidence, lattice or mbr, got one that "
                "gives its best path alone; begin it as decoder.stream(nbest=5, interim_answers=True)"
            )
        self._interim_answers = bool(wanted)

    @property
    def _before(self) -> Before:
        return Before(self._sentence.first_frame, self._sentence.heard)

    @property
    def partial(self) -> Partial:
        """The last result."""
        return self._latest(Partial)

    @property
    def is_finished(self) -> bool:
        """Whether the stream has had its last chunk, and no frame of it waits."""
        return self._last_came and not self._waiting

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
        """Ends the speech, and returns the final result of the sentence.

        If the sentence has ended at an endpoint before, and frames wait, it is that result; :meth:`reset` goes on with
        the frames until ``is_finished``.

        Raises
        ------
        ValueError
            The stream was finished before.
        """
        return self.decode_chunk(np.empty((0, self._decoder._width), np.float32), last=True)

    @lists_options()
    def reset(self, *, boost: Boost | None = None, keep_history: bool = False) -> Partial:
        """Begins the next sentence with the frames that wait, and returns its first result.

        Time goes on: frames and seconds of words count from the beginning of the stream. If the sentence before has not
        ended, no final result of it is made; :meth:`finish` makes one. After the last chunk, more speech may follow.

        Parameters
        ----------
        boost : Boost, optional
            The list from now on; None keeps the one that the stream has, ``Boost([])`` ends it.
        keep_history : bool
            Whether the large language model goes on with the words of the last result, as far as it sees back,
            instead of with the beginning of a sentence. The graph, with its own model, begins anew.

        Returns
        -------
        Partial
            Where frames have waited, the result after them, or at the next endpoint among them; then frames may wait
            again, and another `reset` goes on.

        Raises
        ------
        ValueError
            `keep_history` without a large language model; the stream was interrupted in the middle of a chunk.
        TypeError, GraphError, FormatError, MemoryError, CapacityError
            As of :meth:`CtcDecoder.stream` and :meth:`CtcDecoder.decode_chunks`.

        Examples
        --------
        >>> for chunk in chunks:
        ...     partial = stream.decode_chunk(chunk)
        ...     while partial.endpoint:
        ...         print(partial.text)
        ...         partial = stream.reset()
        """
        check_boost(boost)
        check_bool("keep_history", keep_history)
        decoder = self._decoder
        engine: Any = decoder._engine
        rescoring = decoder._rescoring
        if keep_history and rescoring is None:
            raise ValueError(
                "keep_history: expected False, because the decoder has no large language model whose history could go "
                "on; make it as CtcDecoder(graph, language_model=..., graph_language_model=...)"
            )
        decoder._check_files()  # before anything that waits is taken out
        with engine.turn():
            self._check_whole()
            heard = NOTHING_HEARD
            if keep_history and rescoring is not None:
                heard = self._sentence.heard.after(self.partial.word_ids, rescoring)
            waiting, ended = self._waiting, bool(self._waiting) and self._last_came
            pieces = deque(piece for frames in waiting for piece in frames.pieces())
            try:
                self._begin(self.boost if boost is None else boost, self.num_frames, heard)
                while pieces and self.partial.endpoint is None:
                    before = self._progress()
                    try:
                        rows, last, known = pieces[0].rows, [ended and len(pieces) == 1], pieces[0].known()
                        decoder._decode_next([self], {}, [rows], None, last, None, "raise", known)
                    finally:
                        if self._progress() != before:
                            pieces.popleft()
            finally:
                if self._waiting is not waiting:  # the sentence has begun
                    self._waiting += pieces
                    self._last_came |= ended
            return self.partial

    def save(self) -> bytes:
        """The state of the stream as bytes, from which :meth:`CtcDecoder.restore` makes a stream that goes on.

        They are the same whatever chunks, threads or company have led to it; all that follows has the bytes that
        this stream would give. They name, but do not hold, the graph, the models and the boost. A stream that was asked
        for n-best lists, confidences, lattices or minimum Bayes risk is saved with the lattice of its sentence. The
        stream itself goes on as if nothing had happened.

        Raises
        ------
        ValueError
            The stream was interrupted in the middle of a chunk.
        """
        engine: Any = self._decoder._engine
        with engine.turn():
            self._check_whole()
            waiting = [np.empty((0, self._decoder._width), np.float32), *(frames.rows for frames in self._waiting)]
            settled, search, end = self._saved_search()
            state = StreamState(
                settled,
                search,
                self._sentence.first_frame,
                self._sentence.heard,
                self._endpoint,
                np.concatenate(waiting),
                self._last_came,
                self._asked,
                self.interim_answers,
                end,
                self._method,
                self._saved_confidences(),
            )
            return write(state, self._decoder, self.boost)

    def _saved_search(self) -> tuple[npt.NDArray[np.uint32], dict[str, Any], dict[str, Any] | None]:
        """What is settled before the log, the search, and the end of a sentence, as a `StreamState` has them."""
        settled = self._sentence.arcs(self.num_settled)
        if self._asked is None:
            return settled, self._state.search(), None
        if self._lattice is None:  # whose log begins with the sentence
            return settled[:0], self._state.search(with_lattice=True), None
        arrays, end = ended(lattice := self._lattice.arrays(0))
        search = {name: np.empty(0, dtype) for name, dtype in SEARCH.items()} | arrays
        search |= {"offset": 0.0, "frames": self._state.frames, "fired": self._state.fired}
        return settled, search | {"alive": lattice["complete"]}, end

    def _saved_confidences(self) -> npt.NDArray[np.float32] | None:
        """Those of the frames of the sentence and behind them of those that wait; None if not asked for."""
        if self._method is None:
            return None
        of_sentence = self._sentence.confidences(self.num_frames - self._sentence.first_frame)
        of_waiting = [frames.confidences for frames in self._waiting if frames.confidences is not None]
        return np.concatenate([of_sentence, *of_waiting])

    @classmethod
    def _restored(cls, decoder: CtcDecoder, data: bytes, boost: Boost | None, posteriors: bool) -> Self:
        state, search, end = read(data, decoder, boost)
        made = cls(decoder, boost, state.endpoint, state.asked, posteriors, state.interim_answers, state.method)
        frames = state.search["frames"]
        of_sentence = of_waiting = None
        if state.confidences is not None:
            of_sentence, of_waiting = state.confidences[:frames], state.confidences[frames:]
        made._begin(boost, state.first_frame, state.heard, search, of_sentence)
        if search is not None and end is not None:
            made._end(search, end)
        elif search is not None:
            nothing = np.empty((0, decoder._width), np.float32)
            decoder.decode_chunks([made], [nothing], last=state.last_came and not len(state.waiting))
        made._waiting = [Waiting(state.waiting, of_waiting)] if len(state.waiting) else []
        made._last_came = state.last_came
        return made

    def _end(self, search: SavedSearch, end: SavedEnd) -> None:
        """Has the result of a sentence that had ended with its lattice when it was saved."""
        rest, lattice = end.path[len(search.settled) :], end.lattice
        paths = NOTHING_SAID._replace(
            arcs=rest,
            lengths=np.array([len(rest)]),
            total_costs=np.array([lattice["total_cost"]]),
            reached_final=np.array([lattice["reached_final"]]),
            complete=np.array([lattice["complete"]]),
        )
        results = self._decoder._results(paths, {})
        lattices = Lattices.of_arrays([lattice])
        self._lattice = lattices.copied(0)
        answered = self._decoder._answered_chunks(by_asked(results, lattices, [self]), lattices)
        self._end_sentence(answered[0], search.fired)

    def _check_whole(self) -> None:
        if not self._is_whole:
            raise ValueError(f"stream: {BROKEN}")

    def _fault(self) -> str | None:
        """Why the stream cannot take another chunk; None if it can."""
        if self._last_came:
            return (
                "expected no chunk behind the last; stream.reset() begins the next sentence, decoder.stream() another "
                "stream"
            )
        return None if self._is_whole else BROKEN

    def _progress(self) -> int:
        """A number that changes with every frame that has been taken."""
        return int(self._state.frames) + self.num_waiting

    def _refused(self, error: Fault) -> Partial:
        """The result of a chunk that has an error; the stream is as before."""
        sentence = self._new(self.boost, self._sentence.first_frame)
        return Partial(self._decoder._results(REFUSED, {0: error}), 0, sentence, 0, self.num_frames, False)

    def _behind(self, chunks: Decoded, index: int, taken: int, confidences: npt.NDArray[np.float32] | None) -> Waiting:
        """A copy of the frames of a chunk that lie behind the end of the sentence, with their confidences."""
        return Waiting(chunks.rows(index, taken, self._decoder._width), confidences)

    def __repr__(self) -> str:
        waiting = f", {self.num_waiting} more wait" if self._waiting else ""
        return f"Stream({self.num_frames} frames{waiting}, {self.partial!r})"


def check_boost(boost: object) -> None:
    """TypeError unless it is a `Boost` or None."""
    if boost is not None and not isinstance(boost, Boost):
        raise TypeError(f"boost: expected an arcbeam.Boost, got {type(boost).__name__}")
