"""Options of the transducer decoder, validated here and nowhere else."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypedDict

from arcbeam.core.calls import lists_fields
from arcbeam.core.checks import (
    SMALLEST,
    as_float,
    check_count,
    check_float32,
    check_frame_shift,
    check_real,
    check_threads,
    keep_plain_values,
    shown,
)
from arcbeam.core.confidence import ConfidenceMethod, check_aggregation, resolve
from arcbeam.gpu.devices import check_name

PRECISIONS = ("float32", "bfloat16")
MERGES = ("sum", "max")
LARGEST_ALPHA = 1000.0
LARGEST_COUNT = 2**16
LARGEST_POWER = 10.0


class TransducerKeywords(TypedDict, total=False):
    """Keywords of `TransducerOptions`, for checks of types and for editors."""

    precision: str
    device: str
    threads: int | None
    confidence: str | ConfidenceMethod | None
    confidence_aggregation: str
    boosting_tree_alpha: float
    ngram_lm_alpha: float
    beam: float | None
    max_hypotheses: int
    merge: str
    length_power: float
    settle_frames: int | None
    ilm_scale: float
    lodr_scale: float
    merge_context: int | None


@lists_fields
@dataclass(frozen=True, kw_only=True)
class TransducerOptions:
    """Options of :class:`arcbeam.TransducerDecoder`.

    Parameters
    ----------
    blank_id : int
        The blank's token.
    durations : sequence of int, optional
        Frames that the duration outputs of a TDT stand for; None for an RNN-T.
    max_symbols : int
        Tokens that may be written on one frame; then the next frame follows, as after a blank.
    precision : str
        ``"float32"``: the exact mode, whose bytes are the same on every machine. ``"bfloat16"``: weights and
        activations are rounded to bfloat16 and summed in float32.
    device : str
        ``"cpu"``, ``"cuda"``, ``"cuda:N"``, or ``"auto"``: the first GPU if it can decode, else the CPU, with a warning
        if there is a GPU.
    threads : int or None
        CPU threads; None for one per usable core. If a GPU decodes with a beam, they work on states of streams and on
        lattices; None for one per usable core, at most 16.
    frame_shift : float or None
        Seconds from one frame of the encoder output to the next; needed for times in seconds only.
    confidence : str, ConfidenceMethod or None
        ``"max_prob"``, ``"entropy"`` or a :class:`arcbeam.ConfidenceMethod`; None for no confidence.
    confidence_aggregation : str
        ``"mean"``, ``"min"``, ``"max"`` or ``"prod"``: how the confidence of a word is made of those of its tokens.
        Without `confidence` it has no effect.
    boosting_tree_alpha : float
        The factor of a boosting tree's scores, which are added to the logits of labels; with a beam to their log-probs.
    ngram_lm_alpha : float
        The factor of the n-gram model's natural logs, which are added to the logits of labels; with a beam to their
        log-probs.
    beam : float or None
        Beam search: the largest difference in score, in nats, from the best hypothesis on a frame at which another one
        is kept; ``math.inf`` for no limit. None or 0: greedy search.
    max_hypotheses : int
        With a beam: the most hypotheses that are kept on a frame, and the most entries of an n-best list.
    merge : str
        With a beam: hypotheses with the same tokens on the same frame become one, with the ``"sum"`` of their
        probabilities or with the ``"max"``.
    length_power : float
        With a beam: hypotheses are ranked at the end by ``score / (labels + 1) ** length_power``; 0 ranks them by their
        scores.
    settle_frames : int or None
        With a beam: hypotheses that differ from the best one in tokens written more than this many frames ago are
        dropped. Then words of a stream become stable, and what it keeps does not grow. None: never.
    ilm_scale : float
        With a beam: the factor, from 0 to 1, with which the scores of the internal language model are subtracted from
        those of labels. These are the natural logs of what the network predicts without the encoder's part, among
        labels (Meng et al. 2021).
    lodr_scale : float
        With a beam: the factor, from -1 to 0, of the natural logs of ``lodr_model``, as in icefall.
    merge_context : int or None
        With a beam: hypotheses on the same frame whose last `merge_context` tokens are equal become one, the one with
        the larger score, although older tokens differ; a lattice keeps the paths of both (Prabhavalkar et al. 2021).
        None: only those with the same tokens become one. Of whole utterances, and without `settle_frames`.
    """

    blank_id: int
    durations: tuple[int, ...] | None = None
    max_symbols: int = 10
    precision: str = "float32"
    device: str = "auto"
    threads: int | None = None
    frame_shift: float | None = None
    confidence: str | ConfidenceMethod | None = None
    confidence_aggregation: str = "min"
    boosting_tree_alpha: float = 1.0
    ngram_lm_alpha: float = 0.2
    beam: float | None = None
    max_hypotheses: int = 8
    merge: str = "sum"
    length_power: float = 0.0
    settle_frames: int | None = None
    ilm_scale: float = 0.0
    lodr_scale: float = -0.1
    merge_context: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.blank_id, bool) or not isinstance(self.blank_id, numbers.Integral):
            raise TypeError(f"blank_id: expected a whole number, got {type(self.blank_id).__name__}")
        if self.durations is not None:
            object.__setattr__(self, "durations", _durations(self.durations))
        if isinstance(self.max_symbols, bool) or not isinstance(self.max_symbols, numbers.Integral):
            got = "None" if self.max_symbols is None else type(self.max_symbols).__name__
            raise TypeError(f"max_symbols: expected a whole number of at least 1, got {got}")
        if not 1 <= self.max_symbols < 2**31:
            rule = "at least 1" if self.max_symbols < 1 else f"at most {2**31 - 1:,}"
            raise ValueError(f"max_symbols: expected a whole number of {rule}, got {shown(self.max_symbols)}")
        if self.precision not in PRECISIONS:
            raise ValueError(f"precision: expected {' or '.join(PRECISIONS)}, got {self.precision!r}")
        check_name(self.device)
        if self.threads is not None:
            check_threads(self.threads)
        check_frame_shift(self.frame_shift)
        object.__setattr__(self, "confidence", resolve(self.confidence))
        check_aggregation(self.confidence_aggregation)
        for name in ("boosting_tree_alpha", "ngram_lm_alpha"):
            value = as_float(name, getattr(self, name), "for the scores")
            if not abs(value) <= LARGEST_ALPHA:  # NaN compares false
                raise ValueError(
                    f"{name}: expected a number from -{LARGEST_ALPHA:g} to {LARGEST_ALPHA:g}, got {value!r}"
                )
        self._check_beam()
        keep_plain_values(self)

    def _check_beam(self) -> None:
        """Checks the options of beam search; a beam of 0 becomes None."""
        if self.beam is not None:
            rule = "of nats that is at least 0, or None for greedy search"
            check_real("beam", self.beam, rule, above=0.0, inclusive=True, infinite=True)
            if self.beam == 0:
                object.__setattr__(self, "beam", None)
            elif not math.isinf(self.beam):
                check_float32("beam", self.beam, SMALLEST)
        check_count("max_hypotheses", self.max_hypotheses, LARGEST_COUNT, "")
        if self.merge not in MERGES:
            raise ValueError(f"merge: expected {' or '.join(MERGES)}, got {self.merge!r}")
        if self.settle_frames is not None:
            check_count("settle_frames", self.settle_frames, LARGEST_COUNT)
        power = as_float("length_power", self.length_power, "from 0 to 10")
        if not 0 <= power <= LARGEST_POWER:  # NaN compares false
            raise ValueError(f"length_power: expected a number from 0 to {LARGEST_POWER:g}, got {power!r}")
        for name, least, most in (("ilm_scale", 0.0, 1.0), ("lodr_scale", -1.0, 0.0)):
            scale = as_float(name, getattr(self, name), f"from {least:g} to {most:g}")
            if not least <= scale <= most:
                raise ValueError(f"{name}: expected a number from {least:g} to {most:g}, got {scale!r}")
        if self.merge_context is not None:
            check_count("merge_context", self.merge_context, LARGEST_COUNT)
            if self.settle_frames is not None:
                raise ValueError(
                    f"merge_context: expected None with settle_frames={self.settle_frames}, because tokens that have "
                    f"settled are not those of all paths merged, got {self.merge_context}; leave out one of the two"
                )
        with_a_beam = ("max_hypotheses", "merge", "length_power", "settle_frames", "merge_context")
        for name in (*with_a_beam, "ilm_scale", "lodr_scale"):
            if self.beam is None and getattr(self, name) != getattr(TransducerOptions, name):
                raise ValueError(f"{name}: expected a beam, too, such as beam=4; without one, decoding is greedy")

    def resolved(self, threads: int | None) -> TransducerOptions:
        """The options with these threads in place of None."""
        return replace(self, threads=self.threads or threads)


def _durations(durations: Iterable[int]) -> tuple[int, ...]:
    if isinstance(durations, (str, bytes)) or not isinstance(durations, Iterable):
        raise TypeError(f"durations: expected whole numbers of frames, got {type(durations).__name__}")
    found: list[int] = []
    for i, duration in enumerate(durations):
        if isinstance(duration, bool) or not isinstance(duration, numbers.Integral):
            raise TypeError(f"durations[{i}]: expected a whole number of frames, got {type(duration).__name__}")
        if not 0 <= duration < 2**31:
            rule = "at least 0" if duration < 0 else f"at most {2**31 - 1:,}"
            raise ValueError(f"durations[{i}]: expected {rule} frames, got {shown(duration)}")
        found.append(int(duration))
    if not found:
        raise ValueError("durations: expected at least one, got none; give None for an RNN-T")
    return tuple(found)


def check_nbest(options: TransducerOptions, nbest: int | None) -> None:
    """Raises an error unless so long a list can be had."""
    if nbest is None:
        return
    check_count("nbest", nbest)
    if options.beam is None:
        raise ValueError(
            f"nbest: expected a decoder with a beam, got a greedy one, which has no list of {nbest}; "
            "give beam=4 when the decoder is made"
        )
    if nbest > options.max_hypotheses:
        raise ValueError(
            f"nbest: expected at most max_hypotheses, which is {options.max_hypotheses}, got {nbest}; "
            f"give max_hypotheses={nbest} when the decoder is made"
        )
