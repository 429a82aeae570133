"""Options of the decoder over graphs, each validated here and nowhere else."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypedDict

from arcbeam.core.calls import lists_fields
from arcbeam.core.checks import (
    LARGEST_FACTOR,
    SMALLEST,
    check_count,
    check_float32,
    check_frame_shift,
    check_real,
    check_threads,
    keep_plain_values,
)
from arcbeam.core.confidence import check_aggregation
from arcbeam.core.sizes import as_bytes
from arcbeam.gpu.devices import check_name

UNKNOWN_WORD_RULES = ("error", "unk", "small")
DEFAULT_BOOST = 7.0  # the score of a phrase that comes without; chosen by benchmarks, `boost_score`
CALIBRATED = 0.6  # the posterior scale times the acoustic scale, fitted on ljspeech-200: `confidence_calibration`
PLACEMENTS = ("auto", "resident", "host", "host-direct", "cpu")
OF_GPU_MEMORY = {"memory_limit": 1, "gpu_budget": 1, "arc_cache": 0}
"""Options in bytes of a GPU's memory, and the least that each may be."""


class DecoderKeywords(TypedDict, total=False):
    """Keywords of `DecoderOptions`, for checks of types and for editors."""

    beam: float
    max_active: int | None
    lattice_beam: float
    posterior_scale: float | None
    confidence_aggregation: str
    acoustic_scale: float
    blank_penalty: float
    frame_shift: float | None
    threads: int | None
    device: str
    memory_limit: int | str | None
    lm_scale: float
    graph_lm_scale: float | None
    hypotheses_per_state: int | None
    unknown_words: str
    placement: str
    gpu_budget: int | str | None
    arc_cache: int | str | None


@lists_fields
@dataclass(frozen=True, kw_only=True)
class DecoderOptions:
    """Search options of :class:`arcbeam.CtcDecoder`. Costs are negative natural logs.

    Parameters
    ----------
    beam : float
        Cost (a negative natural log) above the best candidate of a frame that is still admitted; ``math.inf`` keeps
        everything.
    max_active : int or None
        The most tokens that are expanded in a frame: those of the smallest costs. None for no limit.
    lattice_beam : float
        Cost above the best path up to which :meth:`decode` keeps other paths in a lattice; ``math.inf`` keeps all that
        the search has admitted and that leads to an end. The best path does not depend on it.
    posterior_scale : float or None
        Factor on costs where n-best lists, confidences and posteriors of words make probabilities of them; below 1 they
        are less certain. None for 0.6 / `acoustic_scale`, with which confidences of most models are about as often
        right as they say (the experiment ``confidence_calibration``); 1 for the search's own probabilities.
    confidence_aggregation : str
        How confidences of frames become those of labels, and these those of words: ``"mean"``, ``"min"``, ``"max"`` or
        ``"prod"``.
    acoustic_scale : float
        Factor on the log-probs.
    blank_penalty : float
        Cost added to the blank column in every frame; negative values favour blanks.
    frame_shift : float or None
        Seconds from one frame of the log-probs to the next; needed for times in seconds only.
    threads : int or None
        CPU threads, one utterance each; None for one per usable core. If a GPU decodes, they gather log-probs from host
        memory, look up words that the GPU requests, and make lattices and what is read from them; None for as many as
        help.
    device : str
        ``"cpu"``; ``"cuda"`` or ``"cuda:N"`` for a GPU; ``"auto"`` for the first GPU if it can decode, else the CPU,
        with a warning if there is a GPU.
    memory_limit : int, str or None
        Bytes of the GPU's memory that the decoder may take, including its graph, or a size such as ``"2GiB"``; None for
        no limit of its own. This, `gpu_budget` and `arc_cache` are not for ``device="cpu"``; with ``"auto"`` they are
        for the case that a GPU decodes.
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
        Where `language_model` is stored, and what looks words up: ``"resident"``, ``"host"`` and ``"host-direct"`` are
        for a GPU; ``"cpu"`` is for the CPU, and for a `KenLM` also if a GPU decodes; ``"auto"`` chooses
        (``docs/guide/large-language-models.md``).
    gpu_budget : int, str or None
        Bytes of the GPU's memory for `language_model`, or a size such as ``"2GiB"``; None for three quarters of the
        free memory.
    arc_cache : int, str or None
        Bytes of the GPU's memory, or a size, for answers of the language models (``placement="host"``: for single
        arcs and back-off weights); 0 for no cache, None to choose.
    """

    beam: float = 17.0
    max_active: int | None = 10_000
    lattice_beam: float = 16.0
    posterior_scale: float | None = None
    confidence_aggregation: str = "min"
    acoustic_scale: float = 1.0
    blank_penalty: float = 0.0
    frame_shift: float | None = None
    threads: int | None = None
    device: str = "auto"
    memory_limit: int | str | None = None
    lm_scale: float = 1.0
    graph_lm_scale: float | None = None
    hypotheses_per_state: int | None = None
    unknown_words: str = "error"
    placement: str = "auto"
    gpu_budget: int | str | None = None
    arc_cache: int | str | None = None

    def __post_init__(self) -> None:
        check_real("beam", self.beam, "of at least 0", above=0.0, inclusive=True, infinite=True)
        if self.posterior_scale is not None:
            check_real("posterior_scale", self.posterior_scale, "of at least 0", above=0.0, inclusive=True)
        check_real("lattice_beam", self.lattice_beam, "of at least 0", above=0.0, inclusive=True, infinite=True)
        check_aggregation(self.confidence_aggregation)
        check_real("acoustic_scale", self.acoustic_scale, "above 0", above=0.0)
        check_real("blank_penalty", self.blank_penalty, "that is finite", above=-math.inf)
        check_float32("acoustic_scale", self.acoustic_scale, SMALLEST, LARGEST_FACTOR)
        check_float32("blank_penalty", self.blank_penalty)
        check_frame_shift(self.frame_shift)
        if self.max_active is not None:
            check_count("max_active", self.max_active)
        if self.threads is not None:
            check_threads(self.threads)
        check_name(self.device)
        check_real("lm_scale", self.lm_scale, "of at least 0", above=0.0, inclusive=True)
        if self.graph_lm_scale is not None:
            check_real("graph_lm_scale", self.graph_lm_scale, "of at least 0", above=0.0, inclusive=True)
        if self.hypotheses_per_state is not None:
            check_count("hypotheses_per_state", self.hypotheses_per_state)
        for name in ("lm_scale", "graph_lm_scale"):
            check_float32(name, getattr(self, name) or 0.0, largest=LARGEST_FACTOR)
        if self.unknown_words not in UNKNOWN_WORD_RULES:
            rules = ", ".join(UNKNOWN_WORD_RULES)
            raise ValueError(f"unknown_words: expected one of {rules}, got {self.unknown_words!r}")
        if self.placement not in PLACEMENTS:
            raise ValueError(f"placement: expected one of {', '.join(PLACEMENTS)}, got {self.placement!r}")
        for name, at_least in OF_GPU_MEMORY.items():
            if getattr(self, name) is not None:
                object.__setattr__(self, name, as_bytes(name, getattr(self, name), at_least=at_least))
                if self.device == "cpu":
                    raise ValueError(
                        f"{name}: expected None with device='cpu', because it is about the memory of a GPU, got "
                        f"{getattr(self, name):,} bytes; leave it out, or give device='cuda'"
                    )
        keep_plain_values(self)

    @property
    def scale(self) -> float:
        """The number that `posterior_scale` stands for."""
        return CALIBRATED / self.acoustic_scale if self.posterior_scale is None else self.posterior_scale

    def resolved(self, threads: int | None) -> DecoderOptions:
        """The options with the number that `posterior_scale` stands for, and for `threads` of None these."""
        return replace(self, posterior_scale=self.scale, threads=self.threads or threads)
