"""Options of the decoders, each validated here and nowhere else."""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from arcbeam.devices import check_name
from arcbeam.sizes import as_bytes

UNKNOWN_WORDS = ("error", "unk", "small")
PLACEMENTS = ("auto", "resident", "host", "host-direct", "cpu")
HOST_MEMORY = ("auto", "pinned")
# The engines compute in float32. There a factor beyond the largest number is infinite, and a factor below the smallest
# is 0: the one times a log-prob of 0 and the other times -inf are NaN.
SMALLEST, LARGEST = 1.1754943508222875e-38, 3.4028234663852886e38
_Options = TypeVar("_Options")
LARGEST_FACTOR = 1e30  # on log probabilities, whose products have to be finite


def check_known(given: Iterable[str], known: Iterable[str]) -> None:
    """Raises TypeError, which lists the known names, for options that are none of them."""
    known = tuple(known)
    if unknown := sorted(set(given) - set(known)):
        raise TypeError(f"unknown option {', '.join(unknown)}: expected one of {', '.join(known)}")


def make_options(kind: type[_Options], given: Mapping[str, Any]) -> _Options:
    """The options, as an instance of their dataclass. Raises TypeError for unknown ones."""
    check_known(given, [field.name for field in dataclasses.fields(kind)])  # type: ignore[arg-type]
    return kind(**given)


def as_float(name: str, value: object, rule: str) -> float:
    """A number as a float: TypeError for what is none, ValueError for one that is too large."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name}: expected a number {rule}, got {type(value).__name__}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name}: expected a number {rule}, got {shown(value)}") from None


def shown(value: object) -> str:
    """A value for a message; of an integer with hundreds of digits the size."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length():,} bits"
    return repr(value)


def check_real(
    name: str, value: object, rule: str, *, above: float, inclusive: bool = False, infinite: bool = False
) -> None:
    """Raises TypeError or ValueError unless it is a number above the bound, which is one of them if `inclusive`."""
    number = as_float(name, value, rule)
    low = number >= above if inclusive else number > above
    if not low or (math.isinf(number) and not infinite):  # NaN compares false
        raise ValueError(f"{name}: expected a number {rule}, got {value!r}")


def check_float32(name: str, value: float, smallest: float = 0.0, largest: float = LARGEST) -> None:
    """Raises ValueError where float32 arithmetic would make the number, or what it is a factor of, 0 or infinite."""
    if not smallest <= abs(value) <= largest:
        span = f"{smallest:.2g} to {largest:.2g}"
        raise ValueError(f"{name}: expected a number within the range of float32, {span}, got {value!r}")


def check_count(name: str, value: object, below: int = 2**31) -> None:
    """Raises TypeError or ValueError unless it is a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name}: expected a whole number of at least 1, or None, got {type(value).__name__}")
    if int(value) < 1:
        raise ValueError(f"{name}: expected a whole number of at least 1, or None, got {shown(value)}")
    if int(value) >= below:
        raise ValueError(f"{name}: expected a whole number of at most {below - 1:,}, or None, got {shown(value)}")


def check_frame_shift(seconds: object) -> None:
    """Raises TypeError or ValueError unless it is None or so many seconds can be meant."""
    if seconds is None:
        return
    check_real("frame_shift", seconds, "of seconds above 0", above=0.0)
    if seconds > 1:  # type: ignore[operator]
        raise ValueError(f"frame_shift: expected seconds, 1 at most, got {seconds!r}; 20 milliseconds are 0.02")


MOST_THREADS = 4096


def check_threads(threads: object) -> None:
    """Raises TypeError or ValueError unless so many threads can be meant."""
    check_count("threads", threads)
    if threads > MOST_THREADS:  # type: ignore[operator]
        raise ValueError(f"threads: expected at most {MOST_THREADS:,}, got {threads!r}")


@dataclass(frozen=True, kw_only=True)
class DecoderOptions:
    """Search options of :class:`arcbeam.CtcDecoder`. Costs are negative natural logs."""

    beam: float = 17.0
    """Cost above the best candidate of a frame that is still admitted; ``math.inf`` keeps everything."""
    max_active: int | None = 10_000
    """Tokens that may leave in a frame, ties at the last place kept; None for no limit."""
    acoustic_scale: float = 1.0
    """Factor on the log-probs."""
    blank_penalty: float = 0.0
    """Cost added to the blank column in every frame; negative values favour blanks."""
    frame_shift: float | None = None
    """Seconds from one frame of the log-probs to the next; needed for times in seconds only."""
    threads: int | None = None
    """CPU threads, one utterance each; None for one a usable core. For a GPU they gather log-probs that come from host
    memory, and look words up that the GPU asks for; None for as many as help."""
    device: str = "auto"
    """``"cpu"``; ``"cuda"`` or ``"cuda:N"`` for a GPU; ``"auto"`` for the first GPU if it can decode, else the CPU,
    with a warning where there is a GPU."""
    memory_limit: int | str | None = None
    """Bytes of the GPU's memory that the decoder may take, its graph included, or a size as ``"2GiB"``; None for no
    limit of its own."""
    lm_scale: float = 1.0
    """Factor on the log probabilities of the large language model."""
    graph_lm_scale: float | None = None
    """Factor that the graph was built with; None for what the graph says, or 1."""
    hypotheses_per_state: int | None = None
    """Hypotheses with distinct histories that a state of the graph keeps; None for no limit."""
    lookup_margin: float = 0.0
    """Cost beyond the beam within which candidates are rescored."""
    unknown_words: str = "error"
    """What of the graph's words that the large language model lacks: ``"error"``, ``"unk"`` scores them as its unknown
    word, ``"small"`` leaves them the score of the graph's own language model."""
    placement: str = "auto"
    """Where the large language model lives and who looks words up: ``"resident"``, ``"host"`` and ``"host-direct"`` are
    for a GPU, ``"cpu"`` is the CPU, beside a GPU for a `KenLM`; ``"auto"`` chooses. ``"host"`` pins the arcs where they
    are (``docs/rescoring.md``)."""
    gpu_budget: int | str | None = None
    """Bytes of the GPU's memory for the large language model, or a size as ``"2GiB"``; None for as much as is free."""
    arc_cache: int | str | None = None
    """Bytes of the GPU's memory, or a size, for answers of the language models (``placement="host"``: for single arcs
    and back-off weights); 0 for no cache, None to choose."""
    host_memory: str = "auto"
    """Where a GPU reads a large language model over the bus (``placement="host-direct"``): ``"pinned"`` memory, or
    ``"auto"``, which is pinned up to half a gibibyte and managed memory beyond, where an H200 reads faster."""

    def __post_init__(self) -> None:
        check_real("beam", self.beam, "of at least 0", above=0.0, inclusive=True, infinite=True)
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
        check_real("lookup_margin", self.lookup_margin, "of at least 0", above=0.0, inclusive=True, infinite=True)
        for name in ("lm_scale", "graph_lm_scale"):
            check_float32(name, getattr(self, name) or 0.0, largest=LARGEST_FACTOR)
        if self.unknown_words not in UNKNOWN_WORDS:
            raise ValueError(f"unknown_words: expected one of {', '.join(UNKNOWN_WORDS)}, got {self.unknown_words!r}")
        if self.placement not in PLACEMENTS:
            raise ValueError(f"placement: expected one of {', '.join(PLACEMENTS)}, got {self.placement!r}")
        if self.host_memory not in HOST_MEMORY:
            raise ValueError(f"host_memory: expected one of {', '.join(HOST_MEMORY)}, got {self.host_memory!r}")
        for name, at_least in (("memory_limit", 1), ("gpu_budget", 1), ("arc_cache", 0)):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, as_bytes(name, getattr(self, name), at_least=at_least))
