"""Streams of speech: encoder output that arrives in chunks, and the tokens that are known after each chunk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from arcbeam.core.calls import lists_options
from arcbeam.core.checks import check_bool
from arcbeam.streams.waiting import Waiting
from arcbeam.transducer.streams.partial import TransducerPartial
from arcbeam.transducer.streams.sentence import Sentence, SentenceStream
from arcbeam.transducer.streams.state import read, write

if TYPE_CHECKING:
    from arcbeam.streams.endpoints import Endpoint
    from arcbeam.transducer.boosting_tree import BoostingTree
    from arcbeam.transducer.streams.chunks import TransducerChunkDecoder


class TransducerStream(SentenceStream):
    """Speech whose encoder output arrives in chunks, sentence by sentence; :meth:`TransducerDecoder.stream` makes one.

    Chunks may have any length and streams may be decoded together with any others; no result depends on either: in
    ``float32`` the final result of a sentence has the bytes of all its frames decoded at once. Between chunks a stream
    keeps a :class:`TransducerState`, and the tokens of its sentence, 20 to 24 bytes each; and its words, once they or
    their text have been read. With a beam it keeps the hypotheses of its search in place of that state. A stream is
    freed when nothing refers to it.
    """

    _decoder: TransducerChunkDecoder

    def __init__(
        self,
        decoder: TransducerChunkDecoder,
        boost: BoostingTree | None,
        endpoint: Endpoint | None,
        nbest: int | None = None,
    ) -> None:
        self._decoder, self._endpoint = decoder, endpoint
        self._sentence = Sentence.begun(decoder.search.form, endpoint, boost, None, nbest)

    @property
    def num_frames(self) -> int:
        """Frames of the stream that have been decoded so far."""
        return self._sentence.partial.num_frames

    @property
    def boost(self) -> BoostingTree | None:
        """The phrases that are made likelier."""
        return self._sentence.boost

    @property
    def partial(self) -> TransducerPartial:
        """The last result."""
        return self._sentence.partial

    @property
    def _waiting(self) -> tuple[Waiting, ...]:
        return self._sentence.waiting

    @property
    def _last_came(self) -> bool:  # type: ignore[override]
        return self._sentence.last_came

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
        return self._decoder.decode_one(self, encoder_output, last)

    @lists_options()
    def reset(self, *, boost: BoostingTree | None = None, keep_history: bool = False) -> TransducerPartial:
        """Begins the next sentence with the frames that wait, and returns its first result.

        Frames and times of tokens count from the beginning of the stream. The prediction network, the n-gram model and
        the tree begin anew. If the sentence before has not ended, no final result of it is made;
        :meth:`finish` makes one. After the last chunk, more speech may follow. Where `reset` is interrupted, the
        stream is as before.

        Parameters
        ----------
        boost : BoostingTree, optional
            The tree from now on; None keeps the one that the stream has.
        keep_history : bool
            Whether the n-gram model continues from the last tokens, as far as its order reaches, instead of from the
            beginning of a sentence; with a beam, from those of the best hypothesis, and that of LODR, too. The
            prediction network begins anew.

        Returns
        -------
        TransducerPartial
            Where frames have waited, the result after them, or at the next endpoint among them; then frames may wait
            again, for another `reset`.

        Raises
        ------
        ValueError
            `keep_history` without an n-gram model. Or the network's output was not finite for frames that waited: these
            are left out, and the stream continues.
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
        search = self._decoder.search
        check_bool("keep_history", keep_history)
        if keep_history and search.ngram_lm is None:
            raise ValueError(
                "keep_history: expected False, because the decoder has no n-gram model whose history could go on; make "
                "it with ngram_lm_model=..."
            )
        with self._decoder.decoding_lock():
            tree = self.boost if boost is None else search.tree(boost)
            nbest, models = self._sentence.nbest, self._sentence.models if keep_history else None
            start = search.start(tree, self.num_frames, models)
            fresh = type(self)(self._decoder, tree, self._endpoint, nbest)
            fresh._sentence = Sentence.begun(search.form, self._endpoint, tree, start, nbest, models)
            return self._go_on(fresh)

    def save(self) -> bytes:
        """The state of the stream as bytes, from which :meth:`TransducerDecoder.restore` continues it.

        In ``float32`` they do not depend on chunks, threads or other streams. The state names, but does not hold,
        the network, the n-gram model and the tree. The stream itself continues as if nothing had happened.
        """
        with self._decoder.decoding_lock():
            return write(self._sentence, self._decoder.rows_of(self._waiting), self._decoder.search)

    @classmethod
    def restored(cls, decoder: TransducerChunkDecoder, data: bytes, boost: BoostingTree | None) -> Self:
        """As :meth:`TransducerDecoder.restore` says."""
        sentence = read(data, decoder.search, boost)
        made = cls(decoder, boost, sentence.endpoint)
        made._sentence = sentence
        return made

    def _become(self, fresh: Self, waiting: list[Waiting], last_came: bool) -> None:
        """Has what the other stream has, in one step; these frames wait, too, and the last chunk may have come."""
        self._sentence = fresh._sentence.with_waiting(waiting, last_came)
