"""Options of the decoder over graphs, each validated here and nowhere else."""

from __future__ import annotations

import math
from dataclasses import dataclass

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

UNKNOWN_WORDS = ("error", "unk", "small")
DEFAULT_BOOST = 7.0  # the score of a phrase that comes without; chosen by benchmarks, `boost_score`
PLACEMENTS = ("auto", "resident", "host", "host-direct", "cpu")


@lists_fields
@dataclass(frozen=True, kw_only=True)
class DecoderOptions:
    """Search options of :class:`arcbeam.CtcDecoder`. Costs are negative natural logs."""

    beam: float = 17.0
    """Cost above the best candidate of a frame that is still admitted; ``math.inf`` keeps everything."""
    max_active: int | None = 10_000
    """The most tokens that are expanded in a frame: those of the smallest costs. None for no limit."""
    lattice_beam: float = 8.0
    """Cost above the best path up to which other paths are kept in a lattice; ``math.inf`` keeps all that the search
    has admitted and that leads to an end."""
    posterior_scale: float = 1.0
    """Factor on costs where n-best lists and confidences make probabilities of them; below 1 they are less certain."""
    confidence_aggregation: str = "min"
    """How confidences of frames become those of labels, and these those of words: ``"mean"``, ``"min"``, ``"max"`` or
    ``"prod"``."""
    acoustic_scale: float = 1.0
    """Factor on the log-probs."""
    blank_penalty: float = 0.0
    """Cost added to the blank column in every frame; negative values favour blanks."""
    frame_shift: float | None = None
    """Seconds from one frame of the log-probs to the next; needed for times in seconds only."""
    threads: int | None = None
    """CPU threads, one utterance each; None for one per usable core. If a GPU decodes, they gather log-probs from host
    memory, and look up words that the GPU requests; None for as many as help."""
    device: str = "auto"
    """``"cpu"``; ``"cuda"`` or ``"cuda:N"`` for a GPU; ``"auto"`` for the first GPU if it can decode, else the CPU,
    with a warning if there is a GPU."""
    memory_limit: int | str | None = None
    """Bytes of the GPU's memory that the decoder may take, including its graph, or a size such as ``"2GiB"``; None for
    no limit of its own."""
    lm_scale: float = 1.0
    """Factor on the log probabilities of the large language model."""
    graph_lm_scale: float | None = None
    """Factor that the graph was built with; None for the factor that the graph records, or 1."""
    hypotheses_per_state: int | None = None
    """The most hypotheses with distinct histories that each state of the graph keeps; None for no limit."""
    unknown_words: str = "error"
    """How to treat words of the graph that the large language model lacks: ``"error"`` raises an error, ``"unk"``
    scores them as its unknown word, ``"small"`` keeps the score of the graph's own language model."""
    placement: str = "auto"
    """Where the large language model lives and what looks words up: ``"resident"``, ``"host"`` and ``"host-direct"``
    are for a GPU; ``"cpu"`` is for the CPU, and for a `KenLM` also if a GPU decodes; ``"auto"`` chooses. ``"host"``
    pins the arcs where they are (``docs/guide/large-language-models.md``)."""
    gpu_budget: int | str | None = None
    """Bytes of the GPU's memory for the large language model, or a size such as ``"2GiB"``; None for as much as is
    free."""
    arc_cache: int | str | None = None
    """Bytes of the GPU's memory, or a size, for answers of the language models (``placement="host"``: for single arcs
    and back-off weights); 0 for no cache, None to choose."""

    def __post_init__(self) -> None:
        check_real("beam", self.beam, "of at least 0", above=0.0, inclusive=True, infinite=True)
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
        if self.unknown_words not in UNKNOWN_WORDS:
            raise ValueError(f"unknown_words: expected one of {', '.join(UNKNOWN_WORDS)}, got {self.unknown_words!r}")
        if self.placement not in PLACEMENTS:
            raise ValueError(f"placement: expected one of {', '.join(PLACEMENTS)}, got {self.placement!r}")
        for name, at_least in (("memory_limit", 1), ("gpu_budget", 1), ("arc_cache", 0)):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, as_bytes(name, getattr(self, name), at_least=at_least))
        keep_plain_values(self)
