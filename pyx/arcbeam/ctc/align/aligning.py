"""What a decoder for whole utterances is to a user who aligns texts that are known."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from arcbeam.arrays.bad_values import check_errors
from arcbeam.core.calls import lists_options
from arcbeam.core.checks import check_bool
from arcbeam.ctc.align.aligner import AlignCall, align, check_star
from arcbeam.ctc.align.alignment import Alignment
from arcbeam.ctc.boost.spellings import Pronounced

if TYPE_CHECKING:
    from arcbeam.ctc.search import BeamSearch


class AlignKeywords(TypedDict, total=False):
    """Keywords of `CtcDecoder.align`, for checks of types and for editors."""

    pronunciations: Pronounced | str | os.PathLike[str] | None
    star: float | None
    cuda_stream: Any
    errors: str
    logits: bool


class AligningDecoder:
    """The base of `CtcDecoder` that has `align`."""

    _search: BeamSearch
    _ordinal: int | None  # of the GPU; None for the CPU

    @overload
    def align(
        self, log_probs: list[Any] | tuple[Any, ...], texts: Any, lengths: Any = None, **options: Unpack[AlignKeywords]
    ) -> list[Alignment]: ...

    @overload
    def align(
        self, log_probs: Any, texts: Any, lengths: Any = None, **options: Unpack[AlignKeywords]
    ) -> Alignment | list[Alignment]: ...

    @lists_options()
    def align(
        self,
        log_probs: Any,
        texts: Any,
        lengths: Any = None,
        *,
        pronunciations: Pronounced | str | os.PathLike[str] | None = None,
        star: float | None = None,
        cuda_stream: Any = None,
        errors: str = "raise",
        logits: bool = False,
    ) -> Alignment | list[Alignment]:
        """Finds when the words of known texts were said: forced alignment.

        The path of an utterance reads its text and nothing else, by the topology of the decoder's graph, whose words
        and language model play no part. Words have the spellings of the graph, and others are cut into the model's
        tokens. If the model writes a separator between words, any number of separators may stand before, between and
        after the words, or none. Of several best paths the one wins that law 2 of ``docs/design/rules.md`` says, so
        the result is the same on every device, in every batch.

        Parameters
        ----------
        log_probs, lengths
            As of :meth:`decode`.
        texts : str, list of str, or a sequence of these
            The text of each utterance: words with white space between them, or a list of words; of one array [frames,
            columns] its text. Words are taken as they are written, so a text has the case of the model's tokens, and
            no punctuation that these lack.
        pronunciations : mapping of str to str or list of str, or path, optional
            Spellings of words, in tokens with spaces between them, that take the place of all others; or a file of
            lines ``word token token ...``.
        star : float, optional
            The cost of a frame, a negative natural log, at which ``<star>`` in a text takes any label: for stretches
            that the text lacks. A star may take no frame at all. With a cost near 1 it takes what the text lacks and
            little else. None: ``<star>`` is a word like others.
        cuda_stream
            As of :meth:`decode`.
        errors : "raise" or "return"
            What happens to an utterance with NaN or +inf among its frames, with a word that the tokens cannot spell, or
            with a text that takes more frames than there are. "raise": an :class:`InputError`. "return": its place has
            an alignment without words, whose ``error`` is that InputError.
        logits : bool
            As of :meth:`decode`.

        Returns
        -------
        Alignment or list of Alignment
            Of one array [frames, columns] its :class:`Alignment`. Of a batch a list of them, in its order.

        Raises
        ------
        TypeError, ValueError, MemoryError, CudaError
            As of :meth:`decode`; and for texts that are no text, or of another number than the utterances.
        FormatError
            The file of `pronunciations` is none.

        Warns
        -----
        InputWarning, UserWarning
            As of :meth:`decode`.

        Notes
        -----
        A path is proven to be the best (``alignment.exact``) if it costs at most the beam more than the sum over frames
        of the smallest cost of any label of its text. The first beam is the decoder's, but at least 17, without
        `max_active`. Where no path reaches the end of its text, the beam becomes 5 times as wide, and so on. A path
        without a proof is searched once more with the beam that proves it: always if frames times states of the text
        (about three for a token) are at most 2**25, which is more than a minute of speech; otherwise only if that beam
        is at most 5 times as wide as the one that found the path. A decoder with a wider beam proves more of these.

        An engine of its own is made for each call, so give it many utterances. On a GPU its memory is given back at the
        end; with a `memory_limit` it comes out of this, and the decoder gives back what :meth:`release` does. Log-probs
        on the GPU are copied to the host once, for the proof and the confidences.

        Examples
        --------
        >>> for alignment in decoder.align(log_probs, texts, lengths):
        ...     print([(word.word, word.start, word.end, word.confidence) for word in alignment.words])
        """
        check_errors(errors)
        check_bool("logits", logits)
        check_star(star)
        call = AlignCall(pronunciations, star, cuda_stream, errors, logits)
        return align(self._search, self._ordinal, log_probs, texts, lengths, call)
