"""The CTC WFST decoder."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from arcbeam.arrays.bad_values import check_errors, log_prob_errors
from arcbeam.arrays.batches import as_utterances
from arcbeam.arrays.input_looks import InputLooks, named
from arcbeam.arrays.on_device import as_device_utterances, is_on_device, refuse_capture
from arcbeam.checks import make_options
from arcbeam.ctc._decode import CpuEngine
from arcbeam.ctc.hypothesis import Hypothesis
from arcbeam.ctc.options import DecoderOptions
from arcbeam.ctc.rescoring import OPTIONS, LargeModel, Rescoring, rescoring_device
from arcbeam.errors import CapacityError
from arcbeam.gpu.devices import resolve_device
from arcbeam.graph.graph import Graph
from arcbeam.lm.language_model import LanguageModel
from arcbeam.threads import usable_cores

# Token-log entries (8 bytes each) that a lane gathers before it first drops what no token descends from.
COLLECT_ABOVE = 1 << 22


@dataclass(frozen=True)
class DecodeStats:
    """What one call of :meth:`CtcDecoder.decode` did, summed over its utterances.

    None: not counted on this device, or nobody does it. All others are the same on both devices, but for
    ``lookup_misses``. An utterance with NaN, returned with its error, counts nothing, but on a GPU what it looked up.

    Attributes
    ----------
    frames, tokens : int
        Frames, and the tokens that survived in them.
    expanded_tokens : int or None
        Tokens that left (CPU).
    leaving_arcs : int
        Emitting arcs of the tokens that left.
    read_arcs : int or None
        Those of them that were scored; the others were proven inadmissible unread (CPU).
    candidates : int or None
        Those that passed the bound known at the time (CPU).
    admitted : int
        Those that passed the exact bound, and the start of each utterance.
    lookups : int
        Words that were rescored.
    distinct_lookups : int or None
        Of these the distinct ones of each step of a frame, which are asked once for all hypotheses that share them
        (where they are few, for one); with ``placement="host"`` the arcs and back-off weights that they need, one to as
        many as the model's order each (GPU).
    lookup_misses : int
        What the cache did not answer: of ``lookups`` on a CPU, of ``distinct_lookups`` on a GPU. Where the host looks
        up or fetches, what it was asked, ends of sentences left out.
    model_bytes_read : int or None
        Bytes of the large model, in sectors of 32, over the bus where it is in host memory; where the host looks up or
        fetches, of questions and answers (GPU).
    lookup_rounds, lookup_copies : int or None
        Rounds in which the host was asked, and copies in which arcs travelled (``placement="host"`` and ``"cpu"``, and
        ``"host"``; Fukunaga et al. 2019).
    lookup_waiting : float or None
        Share of its time that a lane waited for the host.
    """

    frames: int
    tokens: int
    expanded_tokens: int | None
    leaving_arcs: int
    read_arcs: int | None
    candidates: int | None
    admitted: int
    lookups: int = 0
    lookup_misses: int = 0
    distinct_lookups: int | None = None
    model_bytes_read: int | None = None
    lookup_rounds: int | None = None
    lookup_copies: int | None = None
    lookup_waiting: float | None = None

    @property
    def lookup_hits(self) -> float | None:
        """The share of the look-ups, on a GPU of the distinct ones, that the cache answered; None without any."""
        asked = self.lookups if self.distinct_lookups is None else self.distinct_lookups
        return 1 - self.lookup_misses / asked if asked else None


@dataclass(frozen=True)
class DecoderMemory:
    """Bytes that a decoder holds on its device, by purpose; on the CPU models and graph alone, in host memory.

    Attributes
    ----------
    graph : int
        Shared by the decoders of one graph on one device.
    lanes, token_log : int
        Room for frames, and the back-pointers.
    paths, log_probs, batch : int
        Results, log-probs that came from host memory, and what describes a batch.
    pinned : int
        Memory of the host that copies go through, or where kernels read a language model, and with ``placement="host"``
        the arcs of one, pinned where they are. Managed memory counts; pageable memory, where the host refuses to pin,
        does not.
    language_models : int
        The models that rescore, shared, too, with the arc cache and answers of the host; a KenLM model has the size of
        its file.
    bucketed : int
        Of ``pinned``, a model in buckets, whose index has no room on the device (``placement="host-direct"``).
    """

    graph: int
    lanes: int = 0
    token_log: int = 0
    paths: int = 0
    log_probs: int = 0
    batch: int = 0
    pinned: int = 0
    language_models: int = 0
    bucketed: int = 0

    @property
    def device_bytes(self) -> int:
        """All but the pinned memory."""
        parts = self.graph, self.lanes, self.token_log, self.paths, self.log_probs, self.batch, self.language_models
        return sum(parts)


class CtcDecoder:
    """Best paths through a decoding graph, by beam search over CTC log-probs.

    The search is exact for its beam: a frame's cut-off is known before anything is admitted, ties are settled by arc
    and state, and the same input gives the same bytes whatever the threads, the batch or its order
    (Galvez & Kaldewey 2023, section 3, with the pruning of ``docs/design/engine.md``).

    Parameters
    ----------
    graph : Graph
        Kept alive and shared, never copied.
    language_model : LanguageModel or KenLM, optional
        A large language model that takes the place of the graph's own, on the fly: on every arc with a word, and at the
        end of a sentence, the path's cost gains what the large model says more than the small one (Kim & Lane 2014,
        section 3; Fukunaga et al. 2019). See ``docs/guide/large-language-models.md``.
    graph_language_model : LanguageModel, optional
        The model that the graph was built with; needed with `language_model`, for its scores have to come off.
    beam, max_active, acoustic_scale, blank_penalty, frame_shift, threads, device, memory_limit
        See :class:`arcbeam.DecoderOptions`.
    lm_scale, graph_lm_scale, hypotheses_per_state, lookup_margin, unknown_words
        With `language_model`; see there, too.
    placement, gpu_budget, arc_cache, host_memory
        The same: where `language_model` lives.

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
        The graph does not fit the GPU, or the memory limit; or the machine does not give that many threads.

    Warns
    -----
    UserWarning
        A GPU is there and cannot be used, so ``device="auto"`` is the CPU: the message says why, and what to do.
        The system refuses pinned memory, here or in `decode`: the same results take longer, or the model is placed
        elsewhere; the message says what was refused, and how much.

    Notes
    -----
    A decoder may be used from several Python threads, which then take turns; for parallel work give it ``threads``,
    which decode without the GIL. Pickled or copied, a decoder is made anew from its options and its graph, on the
    device that the options name; a graph or a language model that is mapped from a file is pickled by its path.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        language_model: LargeModel | None = None,
        graph_language_model: LanguageModel | None = None,
        **options: Any,
    ) -> None:
        if not isinstance(graph, Graph):
            raise TypeError(f"graph: expected an arcbeam.Graph, got {type(graph).__name__}")
        self._options = make_options(DecoderOptions, options)
        if self._options.blank_penalty != 0.0 and graph.blank is None:
            raise ValueError("blank_penalty: the graph does not know its blank; give blank= when it is loaded")
        graph.check_file()
        self._graph = graph
        self._stats = DecodeStats(0, 0, 0, 0, 0, 0, 0)
        self._columns = max(graph.num_columns, 1 + (-1 if graph.blank is None else graph.blank))
        token = functools.partial(named, graph.tokens)
        self._looks = InputLooks(self._columns, graph.blank, graph.width_is_exact, token)
        self._rescoring = self._make_rescoring(language_model, graph_language_model)
        device = self._options.device
        if self._rescoring is None:
            self._ordinal = resolve_device(device)
        else:
            self._ordinal = rescoring_device(device, self._options.placement, self._rescoring.large)
        search = {
            "beam": self._options.beam,
            "max_active": self._options.max_active or 0,
            "acoustic_scale": self._options.acoustic_scale,
            "blank_penalty": self._options.blank_penalty,
            "blank_column": -1 if graph.blank is None else graph.blank,
        }
        rescoring: dict[str, Any] = {}
        if self._rescoring is not None:
            rescoring = {
                "rescoring": self._rescoring,
                "hypotheses_per_state": self._options.hypotheses_per_state or 0,
                "lookup_margin": self._options.lookup_margin,
            }
        if self._ordinal is None:
            threads = self._options.threads or usable_cores()
            try:
                self._engine: Any = CpuEngine(
                    graph, **search, **rescoring, collect_above=COLLECT_ABOVE, threads=threads
                )
            except RuntimeError as error:  # std::system_error: the machine gives no more
                raise CapacityError(f"threads: {threads} of them cannot be started ({error})") from None
        else:
            from arcbeam.ctc.gpu._search_engine import CudaEngine
            from arcbeam.gpu.tuned.search_plan import gathering_threads, lookup_threads

            threads = self._options.threads or gathering_threads(usable_cores())
            limit = self._options.memory_limit or 0
            if rescoring:
                places = ("placement", "gpu_budget", "arc_cache", "host_memory")
                rescoring |= {name: getattr(self._options, name) for name in places}
                rescoring["lookup_threads"] = self._options.threads or lookup_threads(
                    usable_cores(), of_kenlm=rescoring["rescoring"].kenlm is not None
                )
            self._engine = CudaEngine(graph, self._ordinal, **search, **rescoring, memory_limit=limit, threads=threads)

    def __reduce__(self) -> Any:
        models: dict[str, Any] = {}
        if self._rescoring is not None:
            models = {"language_model": self._rescoring.large, "graph_language_model": self._rescoring.small}
        return functools.partial(type(self), **models, **dataclasses.asdict(self._options)), (self._graph,)

    def _make_rescoring(self, large: LargeModel | None, small: LanguageModel | None) -> Rescoring | None:
        if large is None:
            if small is not None:
                raise ValueError("graph_language_model: it comes off for a language_model, which is not given")
            changed = [name for name in OPTIONS if getattr(self._options, name) != getattr(DecoderOptions, name)]
            if changed:
                raise ValueError(f"{', '.join(changed)}: this needs a language_model")
            return None
        if small is None:
            raise ValueError(
                "language_model: give graph_language_model, too, the model that the graph was built with "
                "(LanguageModel.build of the same ARPA): its scores are in the graph and have to come off"
            )
        return Rescoring(self._graph, large, small, self._options)

    @property
    def graph(self) -> Graph:
        """The decoding graph."""
        return self._graph

    @property
    def options(self) -> DecoderOptions:
        """The options, as validated."""
        return self._options

    @property
    def device(self) -> str:
        """The device that decodes: ``"cpu"`` or ``"cuda:N"``."""
        return "cpu" if self._ordinal is None else f"cuda:{self._ordinal}"

    @property
    def stats(self) -> DecodeStats:
        """Work of the last finished :meth:`decode`."""
        return self._stats

    def memory(self) -> DecoderMemory:
        """What the decoder holds on its device."""
        if self._ordinal is not None:
            return DecoderMemory(**self._engine.memory())
        graph = self._graph
        columns = (graph.states, graph.targets, graph.columns, graph.words, graph.finals)
        models = 0 if self._rescoring is None else self._rescoring.nbytes
        return DecoderMemory(graph=sum(column.nbytes for column in columns), language_models=models)

    def release(self) -> None:
        """Gives back the memory that grows with batches; the decoder can be used, and grows it again.

        On a GPU: room for lanes, token logs, paths, log-probs, and pinned memory; the graph and language models stay,
        with their caches, as long as a decoder has them. On a CPU: the threads and what they keep. Waits for a batch
        that is being decoded.

        Raises
        ------
        CudaError
            In a process forked from one that used CUDA, or after the device was lost.
        """
        self._engine.release()

    def decode(
        self, log_probs: Any, lengths: Any = None, *, stream: Any = None, errors: str = "raise"
    ) -> list[Hypothesis]:
        """Decodes a batch of utterances.

        Parameters
        ----------
        log_probs : array [batch, frames, columns], or sequence of arrays [frames, columns]
            Natural-log probabilities, float32 or float16. From numpy or anything with DLPack in CPU memory; not copied
            there unless the columns of a frame lie apart, and sent to the GPU, while it decodes, by a decoder on one.
            Such a decoder also takes arrays on its GPU, of anything with DLPack or ``__cuda_array_interface__``, and
            copies none. ``-inf`` means never. Column 0 is input label 1 of the graph. A few frames of every batch are
            looked at; whatever they are, the batch is decoded.
        lengths : sequence or array of int [batch], optional
            Frames of each utterance; the frames beyond are not read.
        stream : int, or a stream of torch, CuPy or cuda.core; optional
            Where arrays on a GPU are being written. By default their library is asked.
        errors : "raise" or "return"
            What becomes of an utterance with NaN or +inf among its frames. "raise": a ValueError, and nothing of the
            batch. "return": in its place stands a hypothesis without words, whose ``error`` is that ValueError; the
            others are what they are without it. All else that is wrong raises.

        Returns
        -------
        list of Hypothesis, in the order of the batch

        Raises
        ------
        TypeError
            Values that are not float32 or float16, arrays in another place than said above, lengths that are not
            integers.
        ValueError
            NaN or +inf among the frames, unless `errors` is "return"; wrong dimensions or width, a length that is
            negative or beyond the frames; on a GPU an array that is misaligned or not in one allocation of the device,
            and a stream of another device.
        FormatError
            A file that the graph or a language model is mapped from has been changed in place.
        MemoryError, CudaOutOfMemoryError, CapacityError
            The search does not fit; the decoder can still be used.
        CudaError
            A call of the driver failed; or the thread captures a CUDA graph, of which a decode cannot be a part.

        Warns
        -----
        UserWarning
            Once a decoder and kind: values above 0, a frame whose probabilities do not sum to 1, or a blank that is
            hardly ever the best column. The message names the frame, and says what may be the matter.
        """
        check_errors(errors)
        graph = self._graph
        self._check_files()
        width: Any = {"columns": self._columns, "exact": graph.width_is_exact}
        on_device = self._ordinal is not None and is_on_device(log_probs)
        if stream is not None and not on_device:
            raise ValueError("stream: expected None, since the log-probs or the decoder are not on a GPU")
        if on_device:
            reader = self._engine.stream
            utterances = as_device_utterances(log_probs, lengths, **width, reader=reader, stream=stream)
        else:
            if self._ordinal is not None:
                refuse_capture(self._engine.stream)
            utterances = as_utterances(log_probs, lengths, **width)
        where = () if self._ordinal is None else (not on_device,)
        looks = self._looks.looks
        paths, work, bad = self._engine.decode(utterances.table, utterances.columns, *where, looks)
        if looks.has_news:
            self._looks.tell()
        found = log_prob_errors(bad, utterances.arrays, errors)
        self._check_files()
        self._stats = DecodeStats(**work)
        shift, rescoring = self._options.frame_shift, self._rescoring
        return [
            Hypothesis(graph, shift, arcs, cost, final, complete, rescoring, found.get(i))
            for i, (arcs, cost, final, complete) in enumerate(paths)
        ]

    def _check_files(self) -> None:
        """FormatError if a file that the graph or a model is mapped from has been changed in place."""
        self._graph.check_file()
        if self._rescoring is not None:
            self._rescoring.check_files()


__all__: Sequence[str] = ["CtcDecoder", "DecodeStats", "DecoderMemory"]
