"""Streams of speech, which arrives in chunks, sentence by sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from arcbeam.core.calls import lists_options
from arcbeam.core.checks import check_bool
from arcbeam.core.errors import InputError
from arcbeam.ctc.boost.boost import Boost
from arcbeam.ctc.boost.boosts import check_boost, opened
from arcbeam.ctc.lattice._lattices import Lattices
from arcbeam.ctc.results import Outputs
from arcbeam.ctc.streams._rounds import Sentence, SentenceStream
from arcbeam.ctc.streams.chunks import NO_PATH, by_outputs
from arcbeam.ctc.streams.endpoint import EndpointRules
from arcbeam.ctc.streams.partial import Partial
from arcbeam.ctc.streams.saved_lattice import SavedEnd, ended
from arcbeam.ctc.streams.sentences import LmContext, SavedSearch
from arcbeam.ctc.streams.state import SEARCH, StreamState, read, write
from arcbeam.streams.stream import SpeechStream
from arcbeam.streams.waiting import Waiting

if TYPE_CHECKING:
    from arcbeam.core.confidence import ConfidenceMethod
    from arcbeam.ctc.streams.chunks import CtcChunkDecoder
    from arcbeam.streams.endpoints import Endpoint

BROKEN = "it was interrupted in the middle of a chunk and cannot go on; stream.reset() begins the next sentence"
NO_CONTEXT = LmContext()


class Stream(SentenceStream, SpeechStream[Partial]):
    """Speech that arrives in chunks, sentence by sentence; :meth:`CtcDecoder.stream` makes one.

    Chunks may have any length and streams may be decoded together with any others; no result depends on either: the
    final result of a sentence has the bytes of all its frames decoded at once. Between chunks a stream keeps its live
    paths, which do not grow with its length, and of its sentence the arcs that all of them share, up to 8 bytes each,
    with their text once that has been read; and, if they are requested, the confidences of its frames, up to 8 bytes
    each, and its lattice, until the next sentence begins. A stream is freed when nothing refers to it.

    Attributes
    ----------
    num_settled : int
        The arcs that all later results of the sentence begin with.
    """

    _decoder: CtcChunkDecoder

    def __init__(
        self,
        decoder: CtcChunkDecoder,
        boost: Boost | None,
        endpoint: Endpoint | None,
        outputs: Outputs | None = None,
        posteriors: bool = False,
        interim_answers: bool = False,
        method: ConfidenceMethod | None = None,
        logits: bool = False,
        first_frame: int = 0,
        lm_context: LmContext = NO_CONTEXT,
        saved: SavedSearch | None = None,
        confidences: npt.NDArray[np.float32] | None = None,
    ) -> None:
        self._decoder, self._endpoint, self._posteriors = decoder, endpoint, posteriors
        self._method, self._logits = method, logits
        options, graph = decoder.search.options, decoder.search.graph
        sentence = Sentence(
            decoder.open_reader if boost is None else lambda: opened(graph, boost).word_reader,
            boost,
            first_frame,
            lm_context,
            endpoint,
            options.scale if posteriors else None,
            None if method is None else options.confidence_aggregation,
            outputs,
            None if saved is None else saved.settled,
            confidences,
        )
        rules = None if endpoint is None else EndpointRules.of(endpoint, graph, options.frame_shift)
        search = decoder.new_sentence(boost, rules, lm_context, saved, outputs)
        self._begin_sentence(search, sentence, 0 if saved is None else saved.frames, decoder.nothing)
        self.interim_answers = interim_answers

    @property
    def boost(self) -> Boost | None:
        """The words and phrases that are made likelier."""
        return self._sentence.boost

    @property
    def logits(self) -> bool:
        """Whether its chunks are logits, of which log-probs are made; otherwise they are log-probs."""
        return self._logits

    @property
    def interim_answers(self) -> bool:
        """Whether results before the end of a sentence have the stream's outputs, too; it may be set.

        It counts for the chunks that are decoded from then on. ``decode_chunk`` without frames gives the outputs so far
        for what has been decoded before. Setting it raises a ValueError if the stream has no output but its best path.
        """
        return self._interim_answers

    @interim_answers.setter
    def interim_answers(self, requested: bool) -> None:
        check_bool("interim_answers", requested)
        if requested and self._sentence.outputs is None:
            raise ValueError(
                "interim_answers: expected a stream with nbest, confidence, lattice or mbr, got one that gives its "
                "best path alone; begin it as decoder.stream(nbest=5, interim_answers=True)"
            )
        self._interim_answers = bool(requested)

    @property
    def partial(self) -> Partial:
        """The last result."""
        return self._latest(Partial)

    @lists_options(logits="is an option of decoder.stream()")
    def decode_chunk(self, log_probs: Any, *, last: bool = False) -> Partial:
        """Decodes the next chunk of this stream alone: ``decoder.decode_chunks([stream], [log_probs], last=last)[0]``.

        Parameters
        ----------
        log_probs : array [frames, columns]
            Logits, if the stream was begun with ``logits=True``.
        last : bool

        Returns
        -------
        Partial
        """
        return self._decoder.decode_one(self, log_probs, last)

    @lists_options()
    def reset(self, *, boost: Boost | None = None, keep_history: bool = False) -> Partial:
        """Begins the next sentence with the frames that wait, and returns its first result.

        Frames and seconds of words count from the beginning of the stream. If the sentence before has not
        ended, no final result of it is made; :meth:`finish` makes one. After the last chunk, more speech may follow.
        A stream that was interrupted in the middle of a chunk continues after the chunk before, without the sentence.
        Where `reset` raises an error or is interrupted, the stream is as before.

        Parameters
        ----------
        boost : Boost, optional
            The list from now on; None keeps the one that the stream has, ``Boost([])`` ends it.
        keep_history : bool
            Whether the large language model continues from the words of the last result, as far as its order reaches,
            instead of from the beginning of a sentence. The graph, with its own model, begins anew.

        Returns
        -------
        Partial
            Where frames have waited, the result after them, or at the next endpoint among them; then frames may wait
            again, for another `reset`.

        Raises
        ------
        ValueError
            `keep_history` without a large language model.
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
        rescoring = decoder.search.rescoring
        if keep_history and rescoring is None:
            raise ValueError(
                "keep_history: expected False, because the decoder has no large language model whose history could go "
                "on; make it as CtcDecoder(graph, language_model=..., graph_language_model=...)"
            )
        decoder.search.check_files()
        with decoder.decoding_lock():
            lm_context = NO_CONTEXT
            if keep_history and rescoring is not None:
                lm_context = self._sentence.lm_context.after(self.partial.word_ids, rescoring)
            fresh = type(self)(
                decoder,
                self.boost if boost is None else boost,
                self._endpoint,
                self._sentence.outputs,
                self._posteriors,
                self.interim_answers,
                self._method,
                self.logits,
                first_frame=self.num_frames,
                lm_context=lm_context,
            )
            return self._go_on(fresh)

    def save(self) -> bytes:
        """The state of the stream as bytes, from which :meth:`CtcDecoder.restore` continues it.

        The bytes do not depend on chunks, threads or the other streams of a batch; all later results have the bytes
        that this stream would give. The state names, but does not hold, the graph, the models and the boost. A stream
        with n-best lists, confidences, lattices or minimum Bayes risk is saved with the lattice of its sentence. The
        stream itself continues as if nothing had happened.

        Raises
        ------
        ValueError
            The stream was interrupted in the middle of a chunk.
        """
        with self._decoder.decoding_lock():
            if not self._is_whole:
                raise InputError("stream", BROKEN)
            settled, search, end = self._saved_search()
            state = StreamState(
                settled,
                search,
                self._sentence.first_frame,
                self._sentence.lm_context,
                self._endpoint,
                self._decoder.rows_of(self._waiting),
                self._last_came,
                self._sentence.outputs,
                self.interim_answers,
                end,
                self._method,
                self._saved_confidences(),
                self.logits,
            )
            return write(state, self._decoder.search, self.boost)

    def _saved_search(self) -> tuple[npt.NDArray[np.uint32], dict[str, Any], dict[str, Any] | None]:
        """What is settled before the log, the search, and the end of a sentence, as a `StreamState` has them."""
        settled = self._sentence.arcs(self.num_settled)
        if self._sentence.outputs is None:
            return settled, self._state.search(), None
        if self._lattice is None:  # whose log begins with the sentence
            return settled[:0], self._state.search(with_lattice=True), None
        arrays, end = ended(lattice := self._lattice.arrays(0))
        search = {name: np.empty(0, dtype) for name, dtype in SEARCH.items()} | arrays
        search |= {"offset": 0.0, "frames": self._state.frames, "fired": self._state.fired}
        return settled, search | {"alive": lattice["complete"]}, end

    def _saved_confidences(self) -> npt.NDArray[np.float32] | None:
        """The confidences of the sentence's frames, then of those that wait; None if not requested."""
        if self._method is None:
            return None
        of_sentence = self._sentence.confidences(self.num_frames - self._sentence.first_frame)
        of_waiting = [frames.confidences for frames in self._waiting if frames.confidences is not None]
        return np.concatenate([of_sentence, *of_waiting])

    @classmethod
    def restored(cls, decoder: CtcChunkDecoder, data: bytes, boost: Boost | None, posteriors: bool) -> Self:
        """As :meth:`CtcDecoder.restore` says."""
        state, search, end = read(data, decoder.search, boost)
        frames = state.search["frames"]
        of_sentence = of_waiting = None
        if state.confidences is not None:
            of_sentence, of_waiting = state.confidences[:frames], state.confidences[frames:]
        made = cls(
            decoder,
            boost,
            state.endpoint,
            state.outputs,
            posteriors,
            state.interim_answers,
            state.method,
            state.logits,
            first_frame=state.first_frame,
            lm_context=state.lm_context,
            saved=search,
            confidences=of_sentence,
        )
        if search is not None and end is not None:
            made._end(search, end)
        elif search is not None:
            decoder.decode_one(made, decoder.no_frames(), state.last_came and not len(state.waiting))
        made._waiting = [Waiting(state.waiting, of_waiting)] if len(state.waiting) else []
        made._last_came = state.last_came
        return made

    def _end(self, search: SavedSearch, end: SavedEnd) -> None:
        """Has the result of a sentence that had ended with its lattice when it was saved."""
        unsettled, lattice = end.path[len(search.settled) :], end.lattice
        lattices = Lattices.of_arrays([lattice])
        paths = NO_PATH._replace(
            arcs=unsettled,
            lengths=np.array([len(unsettled)]),
            total_costs=np.array([lattice["total_cost"]]),
            reached_final=np.array([lattice["reached_final"]]),
            complete=np.array([lattice["complete"]]),
            lattices=lattices,
        )
        self._lattice = lattices.copied(0)
        sentences = [self._sentence]
        outputs = self._decoder.outputs(
            self._decoder.search.results(paths, {}), by_outputs(paths, sentences), sentences
        )
        self._end_sentence(outputs[0], search.fired)

    def _fault(self) -> str | None:
        """Why the stream cannot take another chunk; None if it can."""
        return super()._fault() or (None if self._is_whole else BROKEN)
