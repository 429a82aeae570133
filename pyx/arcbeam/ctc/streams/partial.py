"""What is known of the sentence of a stream after a chunk, and at its end."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

import numpy as np
import numpy.typing as npt

from arcbeam.ctc.hypothesis import Hypothesis
from arcbeam.ctc.streams._live_posteriors import word_posteriors
from arcbeam.ctc.streams.sentences import SavedSearch, SentenceStart
from arcbeam.streams.partials import Partials, places_of

if TYPE_CHECKING:
    from arcbeam.ctc.boost.boost import Boost
    from arcbeam.ctc.results import Results
    from arcbeam.ctc.streams._rounds import Round, Sentence
    from arcbeam.words import Word

LEFT_BEHIND = ("_sentence", "_num_settled")  # by a pickled result


class Partial(Hypothesis):
    """The best path of a stream's sentence so far; at its end, that of the whole sentence.

    It has the attributes of a :class:`Hypothesis`. Before the end no final weight is counted, ``reached_final`` is
    False, and what a boost has given for an unfinished phrase is taken off. Where the stream
    was begun with them, n-best lists, confidences, lattices and minimum Bayes risk are there at the end; before, they
    are None without ``interim_answers``, and with it those of the frames so far, of paths that may all continue.
    ``posteriors`` say before the end how likely words are, and confidences of frames how certain the model is of each
    frame, where these were requested.

    Attributes
    ----------
    num_frames : int
        Frames of the stream that have been decoded so far.
    first_frame : int
        The frame of the stream with which the sentence begins: words, labels and their times count from the beginning
        of the stream, also in n-best lists and lattices; ``tokens``, ``frame_confidence`` and the ``steps`` of a
        lattice count from there.
    is_final : bool
        Whether the sentence has ended, with the last chunk or at an endpoint; the path is then that of
        :meth:`CtcDecoder.decode` for all its frames.
    endpoint : str or None
        The name of the rule that has ended the sentence; None if none has.
    """

    def __init__(
        self,
        results: Results,
        index: int,
        sentence: Sentence,
        settled: int,
        num_frames: int,
        is_final: bool,
        endpoint: str | None = None,
    ) -> None:
        self._results, self._index = results, index
        self._sentence, self._num_settled = sentence, settled
        self.num_frames, self.is_final, self.endpoint = num_frames, is_final, endpoint
        self.first_frame = sentence.first_frame

    def _boosted_with(self) -> Boost | None:
        return self._sentence.boost

    @property
    def _before(self) -> SentenceStart:
        return SentenceStart(self.first_frame, self._sentence.lm_context)

    @property
    def _settled(self) -> npt.NDArray[np.uint32]:
        """uint32[n]: the arcs that all later results of the sentence begin with."""
        return self._sentence.arcs(self._num_settled)

    def _unsettled(self) -> npt.NDArray[np.uint32]:
        """uint32[n]: the arcs after those."""
        arcs, begins, lengths, *_ = self._results.paths
        begin = begins.item(self._index)
        return arcs[begin : begin + lengths.item(self._index)]

    def _read(self) -> dict[str, Any]:
        has_arcs = "arcs" in self.__dict__
        read = super()._read()
        if not has_arcs:
            del self.__dict__["arcs"]  # they are of the unsettled part alone
        return read

    @cached_property
    def arcs(self) -> npt.NDArray[np.uint32]:
        """uint32[n]: arc ids of the path in the graph, epsilon arcs included."""
        return self._sentence.arcs(self._num_settled, self._unsettled())

    @cached_property
    def text(self) -> str:
        """The words, with a space between them."""
        if "arcs" in self.__dict__:  # which a user may have set
            return self._graph.word_reader.text(self.arcs)
        return self._sentence.text(self._num_settled, self._unsettled())

    @cached_property
    def num_stable(self) -> int:
        """How many of ``words``, from the first, keep their text and times whatever follows.

        A word is stable once all paths that are still alive have written it, and the word after it, at the same
        frames. In the final result all words are stable.
        """
        if self.is_final:
            return len(self.words)
        return self._stable[0]

    @cached_property
    def _stable(self) -> tuple[int, str]:
        """The number of stable words before the end of the sentence, and their text."""
        return self._sentence.stable(self._num_settled)

    @cached_property
    def posteriors(self) -> npt.NDArray[np.float64] | None:
        """float64[words]: how likely it is that each of ``words`` stays, in [0, 1]; None if not requested.

        A word has the share of the paths that are still alive which begin with all words up to it, each word with the
        same text; so posteriors never rise from one word to the next, and they are 1 for stable words, as for all words
        of a final result. A path counts with its probability after the chunk, ``exp(posterior_scale * score)``, without
        final weights and with what a boost has given for an unfinished phrase taken off. Times of words do not matter.

        Raises
        ------
        MemoryError, CudaError
            The paths that were alive after the chunk could not be kept. The stream has taken the chunk, and continues.
        """
        scale = self._sentence.posterior_scale
        if scale is None:
            return None
        if self.num_stable == len(self.words):
            return np.ones(self.num_stable)
        live, boost = self._results.live[self._index], self._boosted_with()
        if isinstance(live, Exception):
            raise live
        compiled = None if boost is None else boost.compiled(self._results.graph)
        search = SavedSearch(settled=self._settled, dead_frames=0, **live)
        return word_posteriors(self._graph.word_reader, compiled, search, self._unsettled(), self.num_stable, scale)

    @cached_property
    def frame_confidence(self) -> npt.NDArray[np.float32] | None:
        """float32[frames of the sentence so far]: how certain the model is of each, in [0, 1]; None if not requested.

        A frame keeps its confidence in all later results of the sentence, and so do stable words: ``word_confidence``
        has them first, ``num_stable`` of them. No frames if the chunk was refused.
        """
        if self._sentence.aggregation is None:
            return None
        return self._sentence.confidences(0 if self.error is not None else self.num_frames - self.first_frame)

    @property
    def _aggregation(self) -> str:
        assert self._sentence.aggregation is not None
        return self._sentence.aggregation

    @property
    def stable_words(self) -> list[Word]:
        """The first words, which are never taken back: all later results of the sentence begin with them."""
        return self.words[: self.num_stable]

    @property
    def stable_text(self) -> str:
        """The text of ``stable_words``."""
        return self.text if self.is_final else self._stable[1]

    def to_dict(self) -> dict[str, Any]:
        """All attributes as plain Python values for JSON."""
        ours = {
            name: getattr(self, name) for name in ("is_final", "num_frames", "first_frame", "endpoint", "num_stable")
        }
        if self.posteriors is not None:
            ours["posteriors"] = self.posteriors.tolist()
        return super().to_dict() | ours

    def __getstate__(self) -> dict[str, Any]:
        _ = self.num_stable, self.posteriors, self.is_final or self._stable  # derived now
        return {name: value for name, value in super().__getstate__().items() if name not in LEFT_BEHIND}

    def __repr__(self) -> str:
        if self.error is not None:
            return f"Partial(error={self.error!r})"
        how = f"num_stable={self.num_stable}"
        if self.is_final:
            how = "is_final=True" if self.endpoint is None else f"endpoint={self.endpoint!r}"
        return f"Partial({self.text!r}, {how})"


class CtcPartials(Partials[Partial]):
    """The results of one call of :meth:`CtcDecoder.decode_chunks`, by stream; each is made when it is first read."""

    def __init__(self, found: Round) -> None:
        self._round = found

    @overload
    def __getitem__(self, index: SupportsIndex) -> Partial: ...
    @overload
    def __getitem__(self, index: slice) -> list[Partial]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Partial | list[Partial]:
        places = places_of(len(self), index)
        return self._round.item(places) if isinstance(places, int) else list(map(self._round.item, places))

    def __len__(self) -> int:
        return len(self._round)

    def __iter__(self) -> Iterator[Partial]:
        return map(self._round.item, range(len(self)))

    def texts(self) -> list[str]:
        """The texts of all, made together where they have not been read yet."""
        return self._round.texts()
