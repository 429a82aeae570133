"""The CTC WFST decoder."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack, overload

from arcbeam.arrays.batches import one_or_many
from arcbeam.arrays.input_warnings import named
from arcbeam.arrays.intake import LogProbIntake
from arcbeam.core.calls import explains, lists_options
from arcbeam.core.confidence import ConfidenceMethod
from arcbeam.core.fixed import Fixed
from arcbeam.core.show import changed, shown_as
from arcbeam.core.threads import usable_cores
from arcbeam.ctc.align.aligning import AligningDecoder
from arcbeam.ctc.answering import LatticeReader
from arcbeam.ctc.batches import DecodeKeywords, check_batches, log_probs_and_lengths, pipelined
from arcbeam.ctc.boost.beyond_beam import BeamCheck
from arcbeam.ctc.boost.boost import Boost
from arcbeam.ctc.boost.boosts import Boosts, check_boost, compiled_for
from arcbeam.ctc.confidence.frame_measurer import FrameMeasurer
from arcbeam.ctc.engines import make_engine
from arcbeam.ctc.hypothesis import Hypotheses, Hypothesis
from arcbeam.ctc.options import DecoderKeywords, DecoderOptions
from arcbeam.ctc.rescoring import LargeModel, rescoring_device, rescoring_of_decoder
from arcbeam.ctc.results import Outputs, Results
from arcbeam.ctc.search import BeamSearch
from arcbeam.ctc.stats import NOTHING, DecoderMemory, DecodeStats
from arcbeam.ctc.streams.chunks import CtcChunkDecoder
from arcbeam.ctc.streams.streaming import StreamingDecoder
from arcbeam.gpu.devices import resolve_device
from arcbeam.graph.graph import Graph
from arcbeam.lm.language_model import LanguageModel

if TYPE_CHECKING:
    import os

    StrPath: TypeAlias = str | os.PathLike[str]


@explains(DecoderOptions)
class CtcDecoder(AligningDecoder, StreamingDecoder, Fixed):
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
            if isinstance(graph, (str, os.PathLike)):
                without = "; arcbeam.Graph.load opens the file of a graph, and arcbeam.ctc_decoder takes other files"
            raise TypeError(f"graph: expected an arcbeam.Graph, got {type(graph).__name__}{without}")
        self._given = given = DecoderOptions(**options)
        if given.blank_penalty != 0.0 and graph.blank is None:
            raise ValueError("blank_penalty: the graph has no blank; give blank= when it is loaded")
        graph.check_file()
        rescoring = rescoring_of_decoder(graph, language_model, graph_language_model, given)
        if rescoring is None:
            self._ordinal = resolve_device(given.device)
        else:
            self._ordinal = rescoring_device(given.device, given.placement, rescoring.large)
        resolved = given.resolved(usable_cores() if self._ordinal is None else None)
        width = max(graph.num_columns, 1 + (-1 if graph.blank is None else graph.blank))
        threads = resolved.threads or usable_cores()
        reader = LatticeReader(graph, threads)
        engine = make_engine(graph, resolved, rescoring, self._ordinal, reader.engine)
        self._search = BeamSearch(
            graph,
            resolved,
            rescoring,
            engine,
            LogProbIntake(engine, width, graph.width_is_exact, graph.blank, functools.partial(named, graph.tokens)),
            FrameMeasurer(threads, resolved.confidence_aggregation),
            reader,
            BeamCheck(resolved.beam),
            width,
            threading.local(),
        )
        self._chunks = CtcChunkDecoder(self._search)

    def __reduce__(self) -> Any:
        models: dict[str, Any] = {}
        if (rescoring := self._search.rescoring) is not None:
            models = {"language_model": rescoring.large, "graph_language_model": rescoring.small}
        return functools.partial(type(self), **models, **vars(self._given)), (self.graph,)

    def __repr__(self) -> str:
        graph, rescoring = self.graph, self._search.rescoring
        models = () if rescoring is None else (f"language_model={rescoring.large!r}",)
        what = f"CtcDecoder of {graph.num_states:,} states, {graph.num_arcs:,} arcs on {self.device}"
        return shown_as(what, *models, *changed(self._given, "device"))

    @property
    def graph(self) -> Graph:
        """The decoding graph."""
        return self._search.graph

    @property
    def options(self) -> DecoderOptions:
        """The options, as validated; `threads` of a CPU and `posterior_scale` are numbers, also if None was given."""
        return self._search.options

    @property
    def device(self) -> str:
        """The device that decodes: ``"cpu"`` or ``"cuda:N"``."""
        return "cpu" if self._ordinal is None else f"cuda:{self._ordinal}"

    @property
    def stats(self) -> DecodeStats:
        """Work of this thread's last finished :meth:`decode`: the ``stats`` of what that returned."""
        of_thread = self._search.of_thread
        found = getattr(of_thread, "stats", NOTHING)
        if not isinstance(found, DecodeStats):  # of a round of chunks, which few read
            of_thread.stats = found = DecodeStats(**found)
        return found

    def finished(self) -> int:
        """How many utterances of the batch that is being decoded are finished, for a progress bar of another thread.

        It is 0 between batches, and on a GPU, which decodes the utterances of a batch together.
        """
        return self._search.engine.finished()

    def memory(self) -> DecoderMemory:
        """The memory that the decoder holds on its device."""
        return DecoderMemory(**self._search.engine.memory())

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
        self._search.engine.release()
        self._search.measurer.release()
        self._search.reader.release()

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
            that the array comes from. ``-inf`` means never. Column 0 is input label 1 of the graph. The first 512
            frames of a decoder and a few of every later batch are checked for the warnings below; the batch is decoded
            in any case.
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
            ``"max_prob"``, ``"entropy"`` or a :class:`arcbeam.ConfidenceMethod`: how to measure how certain the model
            is of each frame, ``hypothesis.frame_confidence``, and of the labels and words of the hypothesis (Laptev &
            Ginsburg 2023). The CPU computes it, so that it is the same on every device: log-probs on a GPU are copied
            to the host once for this, after they have been decoded.
        cuda_stream : int, or a stream of torch, CuPy or cuda.core; optional
            The stream that writes arrays on a GPU. By default it is the one that their library reports.
        errors : "raise" or "return"
            What happens to an utterance with NaN or +inf among its frames. "raise": an :class:`InputError`, which is a
            ValueError, and no result for the batch. "return": its place has a hypothesis without words, whose ``error``
            is that InputError; the other results do not change. Any other fault raises an error.

        logits : bool
            Whether the values are logits; a log-softmax of each frame in float32 turns them into log-probs, with the
            same bytes on every device. The host does this for arrays in its memory. Arrays on a GPU stay there: the GPU
            does it before it decodes, in at most 2 GiB of its memory.

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
            On a GPU with a large language model: the boost has more prefixes of phrases than there is room for.
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
        search, outputs = self._search, Outputs(nbest, confidence, lattice, mbr)
        call = search.call(boost, outputs, frame_confidence, cuda_stream, errors, logits)
        log_probs, lengths, is_one = one_or_many(log_probs, lengths)
        found = search.answered(search.searched(log_probs, lengths, call, at_once=True))
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
        """Decodes batch after batch; threads compute the outputs of one while the next is being decoded.

        Each list has the bytes of :meth:`decode`. `nbest`, `confidence` and `mbr` are computed by the CPU, which a GPU
        need not wait for. Without any of them there is nothing to compute at the same time, and each batch is decoded
        as it is pulled.

        Parameters
        ----------
        batches : iterable
            Each is a batch that :meth:`decode` takes as `log_probs`, or a tuple ``(log_probs, lengths)``; utterances
            come in a list, because a tuple is always such a pair. The thread that iterates pulls a batch and decodes
            it; its arrays may be written again when the next one is pulled.
        boost : Boost, optional
            For all utterances of all batches.
        nbest, confidence, lattice, mbr, frame_confidence, cuda_stream, errors, logits
            As of :meth:`decode`.

        Yields
        ------
        Hypotheses
            Of each batch, in order. There are at most two batches in flight: where such outputs are computed, a batch
            is yielded when the next one has been decoded, so a source that is slow delays what came before.

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
        When the iteration ends, also by ``break``, ``close()``, an error or Ctrl-C, no thread of it is left; outputs
        that were being computed are dropped.

        Examples
        --------
        >>> batches = ((model(audio).log_softmax(-1), frames) for audio, frames in loader)
        >>> for hypotheses in decoder.decode_batches(batches, nbest=10, confidence=True):
        ...     print([hypothesis.text for hypothesis in hypotheses])
        """
        check_boost(boost)
        search, outputs = self._search, Outputs(nbest, confidence, lattice, mbr)
        call = search.call(boost, outputs, frame_confidence, cuda_stream, errors, logits)
        compiled_for(self.graph, boost)
        check_batches(batches)

        def searched(batch: Any) -> Results:
            return search.searched(*log_probs_and_lengths(batch), call)

        if not outputs.needs_answers:
            return (search.answered(found) for found in map(searched, batches))
        return pipelined(batches, searched, search.answered, search.reader.new_engine)


def search_of(decoder: CtcDecoder) -> BeamSearch:
    """The search of a decoder."""
    return decoder._search


__all__: Sequence[str] = ["CtcDecoder", "DecodeStats", "DecoderMemory"]
