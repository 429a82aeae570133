"""The CTC WFST decoder."""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack, overload

from arcbeam.arrays.bad_values import check_errors
from arcbeam.arrays.batches import one_or_many
from arcbeam.arrays.input_warnings import named
from arcbeam.arrays.intake import LogProbIntake
from arcbeam.core.calls import explains, lists_options
from arcbeam.core.checks import check_bool
from arcbeam.core.confidence import ConfidenceMethod, measure, resolve
from arcbeam.core.fixed import Fixed
from arcbeam.core.show import changed, shown_as
from arcbeam.core.threads import usable_cores
from arcbeam.ctc.answering import LatticeReader
from arcbeam.ctc.batches import DecodeCall, DecodeKeywords, Searched, check_batches, log_probs_and_lengths, pipelined
from arcbeam.ctc.boost.beyond_beam import BeamCheck
from arcbeam.ctc.boost.boost import Boost, Boosts, check_boost, compiled_for
from arcbeam.ctc.confidence.frame_measurer import FrameMeasurer
from arcbeam.ctc.engines import make_engine
from arcbeam.ctc.hypothesis import Hypotheses, Hypothesis
from arcbeam.ctc.options import DecoderKeywords, DecoderOptions
from arcbeam.ctc.rescoring import OPTIONS, LargeModel, Rescoring, rescoring_device
from arcbeam.ctc.results import Outputs, Paths
from arcbeam.ctc.stats import NOTHING, DecoderMemory, DecodeStats
from arcbeam.ctc.streams.chunks import CtcChunkDecoder
from arcbeam.ctc.streams.stream import Stream
from arcbeam.gpu.devices import resolve_device
from arcbeam.graph.graph import Graph
from arcbeam.lm.language_model import LanguageModel
from arcbeam.lm.loading import as_language_model, as_large_model
from arcbeam.streams.endpoints import Endpoint, check_endpoint

if TYPE_CHECKING:
    import os

    from arcbeam.ctc.lattice._lattice import AnswerEngine
    from arcbeam.ctc.streams.partial import Partial
    from arcbeam.streams.partials import Partials

    StrPath: TypeAlias = str | os.PathLike[str]


@explains(DecoderOptions)
class CtcDecoder(Fixed):
    """Best paths through a decoding graph, by beam search over CTC log-probs.

    The search is exact for its beam: a frame's cut-off is known before anything is admitted, ties are settled by arc
    and state, and the same input gives the same bytes whatever the threads, the batch or its order
    (Galvez & Kaldewey 2023, section 3, with the pruning of ``docs/design/engine.md``).

    Parameters
    ----------
    graph : Graph
        Kept alive and shared, never copied.
    language_model : LanguageModel, KenLM or path, optional
        A large language model that takes the place of the graph's own, on the fly: on every arc with a word, and at the
        end of a sentence, the large model's cost is added to the path and the small one's is subtracted (Kim & Lane
        2014, section 3; Fukunaga et al. 2019). See ``docs/guide/large-language-models.md``. A path is that of an ARPA,
        of a file of `LanguageModel.save`, or of one in KenLM's binary format; its first bytes say which.
    graph_language_model : LanguageModel or path, optional
        The model that the graph was built with; needed with `language_model`, because its scores have to be subtracted.
        A path is that of an ARPA, or of a file of `LanguageModel.save`.
    **options
        Those of :class:`arcbeam.DecoderOptions`, by keyword.

    Raises
    ------
    TypeError, ValueError
        An option out of its range.
    GraphError
        The graph was not built with `graph_language_model`, or has words that `language_model` lacks.
    UnsupportedError
        A `placement` that the device does not have.
    MissingDependencyError, CudaError
        A GPU is named as the device and cannot decode: the message says why.
    CudaOutOfMemoryError, CapacityError
        The graph does not fit the GPU or the memory limit, or the machine cannot start that many threads.

    Warns
    -----
    UserWarning
        There is a GPU that cannot be used, so ``device="auto"`` is the CPU: the message says why, and what to do.
        Or the system refuses pinned memory, here or in `decode`: the same results take longer, or the model is placed
        elsewhere; the message says what was refused, and how much.

    Notes
    -----
    A decoder may be used from several Python threads, which then take turns; for parallel work give it ``threads``,
    which decode without the GIL. Pickled or copied, a decoder is made anew from its options and its graph, on the
    device that the options name; a graph or a language model that is mapped from a file is pickled by its path.
    """

    @lists_options(
        DecoderOptions, min_active="is an option of other decoders: use a wider beam (docs/guide/beam-and-scales.md)"
    )
    def __init__(
        self,
        graph: Graph,
        *,
        language_model: LargeModel | StrPath | None = None,
        graph_language_model: LanguageModel | StrPath | None = None,
        **options: Unpack[DecoderKeywords],
    ) -> None:
        if not isinstance(graph, Graph):
            without = "; without one, arcbeam.ctc_decoder(tokens) decodes greedily" if graph is None else ""
            raise TypeError(f"graph: expected an arcbeam.Graph, got {type(graph).__name__}{without}")
        self._given = self._options = DecoderOptions(**options)
        if self._options.blank_penalty != 0.0 and graph.blank is None:
            raise ValueError("blank_penalty: the graph has no blank; give blank= when it is loaded")
        graph.check_file()
        self._graph = graph
        self._of_thread = threading.local()
        self._width = max(graph.num_columns, 1 + (-1 if graph.blank is None else graph.blank))
        token = functools.partial(named, graph.tokens)
        self._intake = LogProbIntake(self._width, graph.width_is_exact, graph.blank, token)
        self._rescoring = self._make_rescoring(language_model, graph_language_model)
        if self._rescoring is None:
            self._ordinal = resolve_device(self._options.device)
        else:
            self._ordinal = rescoring_device(self._options.device, self._options.placement, self._rescoring.large)
        self._options = self._given.resolved(usable_cores() if self._ordinal is None else None)
        self._engine = make_engine(graph, self._options, self._rescoring, self._ordinal)
        self._reader = LatticeReader(graph, self._options, self._rescoring)
        self._check_beam = BeamCheck(self._options.beam)
        self._measurer = FrameMeasurer(self._options.threads or usable_cores(), self._options.confidence_aggregation)
        self._chunks = CtcChunkDecoder(
            graph, self._options, self._rescoring, self._engine, self._intake, self._measurer, self._reader,
            self._width, self._of_thread,
        )  # fmt: skip

    def __reduce__(self) -> Any:
        models: dict[str, Any] = {}
        if self._rescoring is not None:
            models = {"language_model": self._rescoring.large, "graph_language_model": self._rescoring.small}
        return functools.partial(type(self), **models, **vars(self._given)), (self._graph,)

    def __repr__(self) -> str:
        graph = f"{self._graph.num_states:,} states, {self._graph.num_arcs:,} arcs"
        models = () if self._rescoring is None else (f"language_model={self._rescoring.large!r}",)
        return shown_as(f"CtcDecoder of {graph} on {self.device}", *models, *changed(self._given, "device"))

    def _make_rescoring(
        self, large: LargeModel | StrPath | None, small: LanguageModel | StrPath | None
    ) -> Rescoring | None:
        if large is None:
            if small is not None:
                raise ValueError("graph_language_model: this needs a language_model, too")
            changed = [name for name in OPTIONS if getattr(self._options, name) != getattr(DecoderOptions, name)]
            if changed:
                raise ValueError(
                    f"{', '.join(changed)}: this needs a language_model, the large one that rescores; the scale of the "
                    "model in a graph is an option of its build, and acoustic_scale weighs against it"
                )
            return None
        if small is None:
            raise ValueError(
                "language_model: give graph_language_model, too, the model that the graph was built with "
                "(LanguageModel.build of the same ARPA): its scores are in the graph and have to be subtracted"
            )
        large, small = as_large_model("language_model", large), as_language_model("graph_language_model", small)
        return Rescoring(self._graph, large, small, self._options)

    @property
    def graph(self) -> Graph:
        """The decoding graph."""
        return self._graph

    @property
    def options(self) -> DecoderOptions:
        """The options, as validated; `threads` of a CPU and `posterior_scale` are numbers, also if None was given."""
        return self._options

    @property
    def device(self) -> str:
        """The device that decodes: ``"cpu"`` or ``"cuda:N"``."""
        return "cpu" if self._ordinal is None else f"cuda:{self._ordinal}"

    @property
    def stats(self) -> DecodeStats:
        """Work of this thread's last finished :meth:`decode`: the ``stats`` of what that returned."""
        found = getattr(self._of_thread, "stats", NOTHING)
        if not isinstance(found, DecodeStats):  # of a round of chunks, which few read
            self._of_thread.stats = found = DecodeStats(**found)
        return found

    def finished(self) -> int:
        """How many utterances of the batch that is being decoded are finished, for a progress bar of another thread.

        It is 0 between batches, and on a GPU, which decodes the utterances of a batch together.
        """
        return self._engine.finished()

    def memory(self) -> DecoderMemory:
        """The memory that the decoder holds on its device."""
        return DecoderMemory(**self._engine.memory())

    def release(self) -> None:
        """Gives back the memory that grows with batches; the decoder can still be used, and grows it again.

        On a GPU: room for lanes, token logs, paths, log-probs, and pinned memory; the graph and language models stay,
        with their caches, as long as a decoder has them. On a CPU: the threads and what they keep. Waits for a batch
        that is being decoded.

        Raises
        ------
        CudaError
            In a process forked from one that used CUDA, or after the device was lost.
        """
        self._engine.release()
        self._measurer.release()
        self._reader.release()

    @overload
    def decode(
        self, log_probs: list[Any] | tuple[Any, ...], lengths: Any = None, **options: Unpack[DecodeKeywords]
    ) -> Hypotheses: ...

    @overload
    def decode(
        self, log_probs: Any, lengths: Any = None, **options: Unpack[DecodeKeywords]
    ) -> Hypothesis | Hypotheses: ...

    @lists_options()
    def decode(
        self,
        log_probs: Any,
        lengths: Any = None,
        *,
        boost: Boosts = None,
        nbest: int | None = None,
        confidence: bool = False,
        lattice: bool = False,
        mbr: bool = False,
        frame_confidence: str | ConfidenceMethod | None = None,
        cuda_stream: Any = None,
        errors: str = "raise",
        logits: bool = False,
    ) -> Hypothesis | Hypotheses:
        """Decodes an utterance, or a batch of them.

        Parameters
        ----------
        log_probs : array [frames, columns] or [batch, frames, columns], or sequence of arrays [frames, columns]
            Natural-log probabilities, float32 or float16, from numpy or anything with DLPack in CPU memory. They are
            not copied there unless the columns of a frame lie apart; a decoder on a GPU sends them to it while it
            decodes. Such a decoder also takes arrays on its GPU, from anything with DLPack or
            ``__cuda_array_interface__``, and copies none. float64 and bfloat16 are rounded to float32, by the library
            that the array comes from. ``-inf`` means never. Column 0 is input label 1 of the graph. A few frames of
            every batch are checked for the warnings below; the batch is decoded in any case.
        lengths : int, sequence or array of int [batch], or mask [batch, frames]; optional
            Frames of each utterance; the frames beyond are not read. A mask, such as a model's attention mask of its
            output, is 1 for these frames and 0 for those after them.
        boost : Boost, or sequence of Boost or None; optional
            Words and phrases that are made likelier: for all utterances, or for each its own. If the graph has an open
            slot, they may have words that it lacks.
        nbest : int, optional
            How many of the best distinct word sequences to return: ``hypothesis.nbest``.
        confidence : bool
            Whether to compute ``hypothesis.confidence`` and the confidences of its words.
        lattice : bool
            Whether to keep ``hypothesis.lattice``, the paths within ``lattice_beam`` of the best one. N-best lists
            and confidences are read from lattices, too, so they cover the paths within ``lattice_beam``.
        mbr : bool
            Whether to compute ``hypothesis.mbr`` and ``hypothesis.sausage``: minimum Bayes risk decoding and the
            confusion network. With ``lattice=True`` alone each is computed when it is first read.
        frame_confidence : str, ConfidenceMethod or None
            ``"max_prob"``, ``"entropy"`` or a :class:`arcbeam.ConfidenceMethod`: how to measure how sure the model is
            of each frame, ``hypothesis.frame_confidence``, and of the labels and words of the hypothesis (Laptev &
            Ginsburg 2023). The CPU computes it, so that it is the same on every device: log-probs on a GPU are copied
            to the host once for this, after they have been decoded.
        cuda_stream : int, or a stream of torch, CuPy or cuda.core; optional
            The stream that writes arrays on a GPU. By default it is the one that their library reports.
        errors : "raise" or "return"
            What happens to an utterance with NaN or +inf among its frames. "raise": an :class:`InputError`, which is a
            ValueError, and no result for the batch. "return": its place has a hypothesis without words, whose ``error``
            is that InputError; the other results do not change. Any other fault raises an error.

        logits : bool
            Whether the values are logits, of which the host makes log-probs in float32, by the same rule for every
            device: each less the log of the sum of the powers of its frame. A decoder on a GPU copies them to the host
            for this, and back.

        Returns
        -------
        Hypothesis or Hypotheses
            Of one array [frames, columns] its :class:`Hypothesis`. Of a batch a list of them, in its order, whose
            ``stats`` count the work of this call.

        Raises
        ------
        TypeError
            Values that are not float32 or float16, arrays in another place than those above, lengths that are not
            integers.
        ValueError
            NaN or +inf among the frames, unless `errors` is "return"; wrong dimensions or width, a length that is
            negative or beyond the frames; on a GPU an array that is misaligned or not in one allocation of the device,
            and a stream of another device.
        FormatError
            A file that the graph or a language model is mapped from has been changed in place.
        UnsupportedError
            On a GPU with a large language model: the boost has more beginnings of phrases than there is room for.
        MemoryError, CudaOutOfMemoryError, CapacityError
            The search does not fit; the decoder can still be used.
        CudaError
            A call of the driver failed; or the thread is capturing a CUDA graph, of which a decode cannot be a part.

        Warns
        -----
        InputWarning
            Once for each decoder and kind: values above 0, a frame whose probabilities do not sum to 1, or a blank that
            is hardly ever the best column. The message names the frame, and says what may be wrong.
        UserWarning
            Once for each decoder and list: a phrase has a score above the beam. Once for each decoder: an array in host
            memory seems to be [frames, batch, columns]. And what `Boost.compiled` warns of.
        """
        outputs = Outputs(nbest, confidence, lattice, mbr)
        call = self._call(boost, outputs, frame_confidence, cuda_stream, errors, logits)
        log_probs, lengths, is_one = one_or_many(log_probs, lengths)
        found = self._answered(self._searched(log_probs, lengths, call))
        return found[0] if is_one else found

    @lists_options()
    def decode_batches(
        self,
        batches: Iterable[Any],
        *,
        boost: Boost | None = None,
        nbest: int | None = None,
        confidence: bool = False,
        lattice: bool = False,
        mbr: bool = False,
        frame_confidence: str | ConfidenceMethod | None = None,
        cuda_stream: Any = None,
        errors: str = "raise",
        logits: bool = False,
    ) -> Generator[Hypotheses, None, None]:
        """Decodes batch after batch; threads work out the answers of one while the next is being decoded.

        Each list has the bytes of :meth:`decode`. `nbest`, `confidence` and `mbr` are worked out by the CPU, which a
        GPU need not wait for. Without any of them there is nothing to compute at the same time, and each batch is
        decoded as it is pulled.

        Parameters
        ----------
        batches : iterable
            Each is what :meth:`decode` takes as `log_probs`, or a tuple ``(log_probs, lengths)``; utterances come in a
            list, because a tuple is always such a pair. The thread that iterates pulls a batch and decodes it; its
            arrays may be written again when the next one is pulled.
        boost : Boost, optional
            For all utterances of all batches.
        nbest, confidence, lattice, mbr, frame_confidence, cuda_stream, errors, logits
            As of :meth:`decode`.

        Yields
        ------
        Hypotheses
            Of each batch, in order. There are at most two batches in flight: where answers are worked out, a batch is
            yielded when the next one has been decoded, so a source that is slow delays what came before.

        Raises
        ------
        TypeError, ValueError, GraphError
            An option is wrong: at once, but for a `cuda_stream`, which comes with the first batch. A tuple that is no
            pair: in its place.
        RuntimeError
            A forked child continues an iteration of its parent, whose thread it does not have.
        Exception
            What :meth:`decode` raises for a batch, and what `batches` itself raises, in its place: all batches before
            have been yielded then, and the iteration is over. ``errors="return"`` goes on past utterances with NaN.

        Notes
        -----
        When the iteration ends, also by ``break``, ``close()``, an error or Ctrl-C, no thread of it is left; answers
        that were being worked out are dropped.

        Examples
        --------
        >>> batches = ((model(audio).log_softmax(-1), frames) for audio, frames in loader)
        >>> for hypotheses in decoder.decode_batches(batches, nbest=10, confidence=True):
        ...     print([hypothesis.text for hypothesis in hypotheses])
        """
        check_boost(boost)
        check_errors(errors)
        outputs = Outputs(nbest, confidence, lattice, mbr)
        call = self._call(boost, outputs, frame_confidence, cuda_stream, errors, logits)
        compiled_for(self._graph, boost)
        check_batches(batches)

        def search(batch: Any) -> Searched:
            return self._searched(*log_probs_and_lengths(batch), call)

        if not outputs.needs_answers:
            return (self._answered(found) for found in map(search, batches))
        return pipelined(batches, search, self._answered, self._reader.new_engine)

    def _call(
        self,
        boost: Boosts,
        outputs: Outputs,
        frame_confidence: str | ConfidenceMethod | None,
        cuda_stream: Any,
        errors: str,
        logits: bool,
    ) -> DecodeCall:
        """The options of a call, checked."""
        check_bool("logits", logits)
        return DecodeCall(boost, outputs, self._method(frame_confidence), cuda_stream, errors, logits)

    def _method(self, frame_confidence: str | ConfidenceMethod | None) -> ConfidenceMethod | None:
        method = resolve(frame_confidence, "frame_confidence")
        if method is not None and self._graph.blank is None:
            raise ValueError("frame_confidence: the graph has no blank; give blank= when it is loaded")
        return method

    def _searched(self, log_probs: Any, lengths: Any, call: DecodeCall) -> Searched:
        """A batch, with all that has to be read of its log-probs; what is read from lattices is still to come."""
        self._check_files()
        beam = self._options.lattice_beam if call.outputs.needs_lattices else None
        boosts = compiled_for(self._graph, call.boost, self._options.threads or usable_cores())
        self._check_beam(call.boost)
        found = self._intake.decode(
            self._engine, log_probs, lengths, call.errors, call.cuda_stream, call.logits, lattice_beam=beam,
            boosts=boosts,
        )  # fmt: skip
        self._check_files()
        self._of_thread.stats = stats = DecodeStats(**found.work)
        *paths, lattices = (*found.answers, None) if beam is None else found.answers
        results = replace(
            self._chunks.results(Paths(*paths), found.errors),
            frames=None if call.method is None else self._measurer.of_batch(found, call.method),
            boosts=call.boost,
        )
        return Searched(results, lattices, call.outputs, stats)

    def _answered(self, found: Searched, engine: AnswerEngine | None = None) -> Hypotheses:
        """The hypotheses of a batch, with what is read from lattices: by an engine of one's own, or the decoder's."""
        results = found.results
        if found.lattices is not None:
            results = self._reader.outputs(results, found.lattices, found.outputs, engine)
        return Hypotheses(map(Hypothesis, itertools.repeat(results), range(len(results.paths.begins))), found.stats)

    @lists_options()
    def stream(
        self,
        *,
        boost: Boost | None = None,
        endpoint: Endpoint | None = None,
        nbest: int | None = None,
        confidence: bool = False,
        lattice: bool = False,
        mbr: bool = False,
        interim_answers: bool = False,
        posteriors: bool = False,
        frame_confidence: str | ConfidenceMethod | None = None,
    ) -> Stream:
        """Begins a stream of speech, which arrives in chunks.

        Parameters
        ----------
        boost : Boost, optional
            Words and phrases that are made likelier.
        endpoint : Endpoint, optional
            Rules that end sentences. Where one holds, the result is final and names it, and the frames after it wait
            for :meth:`Stream.reset`. They need ``frame_shift``. By default a sentence ends with the last chunk alone.
        nbest : int, optional
            How many of the best distinct word sequences of each sentence to return: ``partial.nbest`` of its final
            result, with the bytes that :meth:`decode` gives for its frames; times count from the beginning of the
            stream. With this or any of the next three, the stream keeps the sentence's lattice so far.
        confidence, lattice, mbr : bool
            As of :meth:`decode`, for the final result of each sentence.
        interim_answers : bool
            Whether results before the end of a sentence have these four outputs, too, for the frames so far. Each
            chunk then costs more the longer its sentence has become; :attr:`Stream.interim_answers` changes it between
            chunks.
        posteriors : bool
            Whether each result has ``partial.posteriors``: how likely its words are, by the paths that are alive. Each
            round then copies these paths.
        frame_confidence : str, ConfidenceMethod or None
            ``"max_prob"``, ``"entropy"`` or a :class:`arcbeam.ConfidenceMethod`: how to measure how sure the model is
            of each frame, ``partial.frame_confidence`` of each result, and of the labels and words so far. The stream
            then keeps a float32 for each frame of its sentence. The CPU computes them before the chunk is decoded, and
            copies a chunk on a GPU to the host for this.

        Raises
        ------
        UnsupportedError
            On a GPU: :meth:`decode` does not take the boost there.
        ValueError
            An `endpoint`, but the decoder was given no ``frame_shift``, or the graph does not name its blank;
            `interim_answers` without any of the outputs that it concerns; or a `frame_confidence` that is no method,
            cannot be computed for so many columns, or needs a blank that the graph does not name.
        TypeError, GraphError
            As of :meth:`decode`.

        Warns
        -----
        UserWarning
            As :meth:`decode` does of a `boost`.
        """
        check_boost(boost)
        check_endpoint(endpoint)
        check_bool("posteriors", posteriors)
        self._check_beam(boost)
        outputs, method = Outputs(nbest, confidence, lattice, mbr), self._method(frame_confidence)
        if method is not None:
            measure(method, self._width)
        kept = outputs if outputs.needs_lattices else None
        return Stream(self._chunks, boost, endpoint, kept, posteriors, interim_answers, method)

    @lists_options()
    def restore(self, data: bytes, *, boost: Boost | None = None, posteriors: bool = False) -> Stream:
        """Continues a stream that :meth:`Stream.save` has saved, here or anywhere else.

        All later results have the bytes that the saved stream would have given, and the same outputs.

        Parameters
        ----------
        data : bytes
        boost : Boost, optional
            The list that the stream was saved with, if it had one.
        posteriors : bool
            As of :meth:`stream`, whatever the saved stream had.

        Raises
        ------
        FormatError
            The bytes are no saved stream, or one that is damaged, cut short or of another version.
        ValueError
            The stream was decoded with another graph, language model, option or boost: the message names it.
        UnsupportedError, TypeError, GraphError, MemoryError, CapacityError
            As of :meth:`stream` and :meth:`decode_chunks`.

        Examples
        --------
        >>> data = stream.save()
        >>> stream = other_decoder.restore(data)
        """
        check_boost(boost)
        check_bool("posteriors", posteriors)
        self._check_files()
        return Stream.restored(self._chunks, data, boost, posteriors)

    @lists_options()
    def decode_chunks(
        self,
        streams: Sequence[Stream],
        log_probs: Any,
        lengths: Any = None,
        *,
        last: bool | Sequence[bool] | None = None,
        cuda_stream: Any = None,
        errors: str = "raise",
    ) -> Partials[Partial]:
        """Decodes the next chunk of each of some streams.

        Any streams of this decoder may be decoded together, with chunks of any lengths, 0 included: results do not
        depend on it. A stream whose sentence has ended at an endpoint keeps its chunk for :meth:`Stream.reset`, and has
        the same result again.

        Parameters
        ----------
        streams : sequence of Stream
            Each once.
        log_probs : array [streams, frames, columns], or sequence of arrays [frames, columns]
            The chunks, as :meth:`decode` takes utterances.
        lengths : sequence or array of int [streams], optional
            Frames of each chunk; the frames beyond are not read.
        last : bool, or sequence of bool [streams]; optional
            Whether this is the last chunk: of all, or of each. Its result is the final one, unless the sentence has
            ended at an endpoint before.
        cuda_stream : int, or a stream of torch, CuPy or cuda.core; optional
            As of :meth:`decode`.
        errors : "raise" or "return"
            What happens to a chunk that is refused, which leaves its stream as it was: a chunk with NaN or +inf, after
            the last one, of another decoder's stream, of a stream that is listed twice (the second time), an array of
            a list with a wrong type, shape or place, and one with more columns than its stream's `frame_confidence` can
            be computed for. "raise": an :class:`InputError` for values and streams, or else a ValueError or TypeError.
            For NaN or +inf the other streams have taken their chunks, and have the results as ``partial``; anything
            else is found before any chunk is decoded. "return": its place has a result without words, whose ``error``
            is that exception; the other results do not change.

        Returns
        -------
        Partials
            A sequence of :class:`Partial`, in the order of the streams.

        Raises
        ------
        TypeError, ValueError, FormatError, MemoryError, CapacityError
            As of :meth:`decode`; and what `errors` says. After a MemoryError, a CapacityError or an interrupt, streams
            whose chunks were decoded in part, or did not get their results, cannot go on and say so, until
            :meth:`Stream.reset` begins another sentence; the others have their chunks, or are as before. Where memory
            is too short for a chunk's n-best list, confidences or minimum Bayes risk, reading these raises a
            MemoryError.

        Warns
        -----
        InputWarning
            As of :meth:`decode`; streams have their chunks, also if it is made an error.

        Examples
        --------
        >>> stream = decoder.stream()
        >>> for chunk in np.array_split(log_probs, 10):
        ...     [partial] = decoder.decode_chunks([stream], [chunk])
        ...     print(partial.stable_text, "|", partial.text)
        >>> hypothesis = stream.finish()
        """
        return self._chunks.decode(streams, log_probs, lengths, last, cuda_stream, errors)

    def _check_files(self) -> None:
        """FormatError if a file that the graph or a model is mapped from has been changed in place."""
        self._chunks.check_files()


__all__: Sequence[str] = ["CtcDecoder", "DecodeStats", "DecoderMemory"]
