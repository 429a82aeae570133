"""The CTC WFST decoder."""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from arcbeam.arrays.input_looks import named
from arcbeam.arrays.intake import LogProbIntake
from arcbeam.calls import lists_options
from arcbeam.ctc.engines import make_engine
from arcbeam.ctc.hypothesis import Hypotheses, Hypothesis
from arcbeam.ctc.options import DecoderOptions
from arcbeam.ctc.rescoring import OPTIONS, LargeModel, Rescoring, rescoring_device
from arcbeam.ctc.stats import NOTHING, DecoderMemory, DecodeStats
from arcbeam.gpu.devices import resolve_device
from arcbeam.graph.graph import Graph
from arcbeam.lm.language_model import LanguageModel
from arcbeam.lm.loading import as_language_model, as_large_model
from arcbeam.show import changed, shown_as

if TYPE_CHECKING:
    import os

    StrPath: TypeAlias = str | os.PathLike[str]


class CtcDecoder:
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
    beam : float
        Cost (a negative natural log) above the best candidate of a frame that is still admitted; ``math.inf`` keeps
        everything.
    max_active : int or None
        The most tokens that are expanded in a frame; ties for the last place are kept. None for no limit.
    acoustic_scale : float
        Factor on the log-probs.
    blank_penalty : float
        Cost added to the blank column in every frame; negative values favour blanks.
    frame_shift : float or None
        Seconds from one frame of the log-probs to the next; needed for times in seconds only.
    threads : int or None
        CPU threads, one utterance each; None for one per usable core. If a GPU decodes, they gather log-probs from host
        memory, and look up words that the GPU requests; None for as many as help.
    device : str
        ``"cpu"``; ``"cuda"`` or ``"cuda:N"`` for a GPU; ``"auto"`` for the first GPU if it can decode, else the CPU,
        with a warning if there is a GPU.
    memory_limit : int, str or None
        Bytes of the GPU's memory that the decoder may take, including its graph, or a size such as ``"2GiB"``; None for
        no limit of its own.
    lm_scale : float
        Factor on the natural-log probabilities of `language_model`. This and the options below need one.
    graph_lm_scale : float or None
        Factor that the graph was built with; None for the factor that the graph records, or 1.
    hypotheses_per_state : int or None
        The most hypotheses with distinct histories that each state of the graph keeps; None for no limit.
    unknown_words : str
        How to treat words of the graph that `language_model` lacks: ``"error"`` raises an error, ``"unk"`` scores them
        as its unknown word, ``"small"`` keeps the score of the graph's own model.
    placement : str
        Where `language_model` lives and what looks words up: ``"resident"``, ``"host"`` and ``"host-direct"`` are for a
        GPU; ``"cpu"`` is for the CPU, and for a `KenLM` also if a GPU decodes; ``"auto"`` chooses
        (``docs/guide/large-language-models.md``).
    gpu_budget : int, str or None
        Bytes of the GPU's memory for `language_model`, or a size such as ``"2GiB"``; None for as much as is free.
    arc_cache : int, str or None
        Bytes of the GPU's memory, or a size, for answers of the language models; 0 for no cache, None to choose.

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

    @lists_options()
    def __init__(
        self,
        graph: Graph,
        *,
        language_model: LargeModel | StrPath | None = None,
        graph_language_model: LanguageModel | StrPath | None = None,
        beam: float = 17.0,
        max_active: int | None = 10_000,
        acoustic_scale: float = 1.0,
        blank_penalty: float = 0.0,
        frame_shift: float | None = None,
        threads: int | None = None,
        device: str = "auto",
        memory_limit: int | str | None = None,
        lm_scale: float = 1.0,
        graph_lm_scale: float | None = None,
        hypotheses_per_state: int | None = None,
        unknown_words: str = "error",
        placement: str = "auto",
        gpu_budget: int | str | None = None,
        arc_cache: int | str | None = None,
    ) -> None:
        if not isinstance(graph, Graph):
            raise TypeError(f"graph: expected an arcbeam.Graph, got {type(graph).__name__}")
        self._options = DecoderOptions(
            beam=beam,
            max_active=max_active,
            acoustic_scale=acoustic_scale,
            blank_penalty=blank_penalty,
            frame_shift=frame_shift,
            threads=threads,
            device=device,
            memory_limit=memory_limit,
            lm_scale=lm_scale,
            graph_lm_scale=graph_lm_scale,
            hypotheses_per_state=hypotheses_per_state,
            unknown_words=unknown_words,
            placement=placement,
            gpu_budget=gpu_budget,
            arc_cache=arc_cache,
        )
        if self._options.blank_penalty != 0.0 and graph.blank is None:
            raise ValueError("blank_penalty: the graph does not know its blank; give blank= when it is loaded")
        graph.check_file()
        self._graph = graph
        self._of_thread = threading.local()
        width = max(graph.num_columns, 1 + (-1 if graph.blank is None else graph.blank))
        token = functools.partial(named, graph.tokens)
        self._intake = LogProbIntake(width, graph.width_is_exact, graph.blank, token)
        self._rescoring = self._make_rescoring(language_model, graph_language_model)
        if self._rescoring is None:
            self._ordinal = resolve_device(device)
        else:
            self._ordinal = rescoring_device(device, placement, self._rescoring.large)
        self._engine = make_engine(graph, self._options, self._rescoring, self._ordinal)

    def __reduce__(self) -> Any:
        models: dict[str, Any] = {}
        if self._rescoring is not None:
            models = {"language_model": self._rescoring.large, "graph_language_model": self._rescoring.small}
        return functools.partial(type(self), **models, **vars(self._options)), (self._graph,)

    def __repr__(self) -> str:
        graph = f"{self._graph.num_states:,} states, {self._graph.num_arcs:,} arcs"
        models = () if self._rescoring is None else (f"language_model={self._rescoring.large!r}",)
        return shown_as(f"CtcDecoder of {graph} on {self.device}", *models, *changed(self._options, "device"))

    def _make_rescoring(
        self, large: LargeModel | StrPath | None, small: LanguageModel | StrPath | None
    ) -> Rescoring | None:
        if large is None:
            if small is not None:
                raise ValueError("graph_language_model: this needs a language_model, too")
            changed = [name for name in OPTIONS if getattr(self._options, name) != getattr(DecoderOptions, name)]
            if changed:
                raise ValueError(f"{', '.join(changed)}: this needs a language_model")
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
        """The options, as validated."""
        return self._options

    @property
    def device(self) -> str:
        """The device that decodes: ``"cpu"`` or ``"cuda:N"``."""
        return "cpu" if self._ordinal is None else f"cuda:{self._ordinal}"

    @property
    def stats(self) -> DecodeStats:
        """Work of this thread's last finished :meth:`decode`: the ``stats`` of what that returned."""
        found: DecodeStats = getattr(self._of_thread, "stats", NOTHING)
        return found

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

    @lists_options(stream="cuda_stream")
    def decode(
        self, log_probs: Any, lengths: Any = None, *, cuda_stream: Any = None, errors: str = "raise"
    ) -> Hypotheses:
        """Decodes a batch of utterances.

        Parameters
        ----------
        log_probs : array [batch, frames, columns], or sequence of arrays [frames, columns]
            Natural-log probabilities, float32 or float16, from numpy or anything with DLPack in CPU memory. They are
            not copied there unless the columns of a frame lie apart; a decoder on a GPU sends them to it while it
            decodes. Such a decoder also takes arrays on its GPU, from anything with DLPack or
            ``__cuda_array_interface__``, and copies none. ``-inf`` means never. Column 0 is input label 1 of the graph.
            A few frames of every batch are checked for the warnings below; the batch is decoded in any case.
        lengths : sequence or array of int [batch], optional
            Frames of each utterance; the frames beyond are not read.
        cuda_stream : int, or a stream of torch, CuPy or cuda.core; optional
            Where arrays on a GPU are being written. By default their library is asked.
        errors : "raise" or "return"
            What happens to an utterance with NaN or +inf among its frames. "raise": a ValueError, and no result for the
            batch. "return": in its place stands a hypothesis without words, whose ``error`` is that ValueError; the
            others are the same as without it. Any other fault raises an error.

        Returns
        -------
        Hypotheses
            A list of :class:`Hypothesis`, in the order of the batch; its ``stats`` count the work of this call.

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
        MemoryError, CudaOutOfMemoryError, CapacityError
            The search does not fit; the decoder can still be used.
        CudaError
            A call of the driver failed; or the thread is capturing a CUDA graph, of which a decode cannot be a part.

        Warns
        -----
        UserWarning
            Once for each decoder and kind: values above 0, a frame whose probabilities do not sum to 1, or a blank that
            is hardly ever the best column. The message names the frame, and says what may be wrong.
        """
        self._check_files()
        found = self._intake.decode(self._engine, log_probs, lengths, errors, cuda_stream)
        self._check_files()
        self._of_thread.stats = stats = DecodeStats(**found.work)
        graph, shift, rescoring = self._graph, self._options.frame_shift, self._rescoring
        hypotheses = (
            Hypothesis(graph, shift, arcs, cost, final, complete, rescoring, found.errors.get(i))
            for i, (arcs, cost, final, complete) in enumerate(found.answers)
        )
        return Hypotheses(hypotheses, stats)

    def _check_files(self) -> None:
        """FormatError if a file that the graph or a model is mapped from has been changed in place."""
        self._graph.check_file()
        if self._rescoring is not None:
            self._rescoring.check_files()


__all__: Sequence[str] = ["CtcDecoder", "DecodeStats", "DecoderMemory"]
