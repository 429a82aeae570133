"""Scores of a boost from speech without its phrases: the largest that seldom put a phrase where it was not spoken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from arcbeam.core.checks import as_float, check_real
from arcbeam.ctc.boost.phrases import LARGEST_SCORE
from arcbeam.ctc.options import DecoderOptions
from arcbeam.graph.graph import Graph

STEPS = 8  # to a score of 1


class Decoder(Protocol):
    """What the calibration needs of a `CtcDecoder`."""

    @property
    def graph(self) -> Graph: ...  # noqa: D102

    @property
    def options(self) -> DecoderOptions: ...  # noqa: D102

    def decode(self, log_probs: Any, lengths: Any = None, **options: Any) -> Any: ...  # noqa: D102


class ScoredPhrases(Protocol):
    """What the calibration needs of a `Boost`."""

    @property
    def phrases(self) -> Mapping[str, float]: ...  # noqa: D102

    def unknown(self, graph: Graph, /) -> Any: ...  # noqa: D102

    def with_scores(self, phrases: Mapping[str, float], /) -> Any: ...  # noqa: D102

    def occurrences(self, words: Sequence[str], /) -> list[tuple[str, float, int, int]]: ...  # noqa: D102


Phrases = TypeVar("Phrases", bound=ScoredPhrases)


def calibrated(
    boost: Phrases, decoder: Decoder, log_probs: Any, lengths: Any, false_alarms: float, largest: float | None
) -> Phrases:
    """What `Boost.calibrate` says."""
    if not isinstance(getattr(decoder, "options", None), DecoderOptions):
        raise TypeError(f"decoder: expected an arcbeam.CtcDecoder, got {type(decoder).__name__}")
    share = as_float("false_alarms", false_alarms, "from 0 to below 1")
    if not 0.0 <= share < 1.0:
        raise ValueError(f"false_alarms: expected a share of the utterances, from 0 to below 1, got {false_alarms!r}")
    steps = _steps(decoder, largest)
    graph = decoder.graph
    unknown = boost.unknown(graph)
    known = {phrase: score for phrase, score in boost.phrases.items() if phrase not in unknown}
    highest = max(known.values(), default=0.0)
    if highest <= 0.0:
        raise ValueError(
            "Boost.calibrate: expected at least one phrase with a score above 0 that the graph can write, got none of "
            f"{len(boost.phrases):,}"
        )

    def scaled(phrases: dict[str, float], step: int) -> Phrases:
        factor = step / STEPS / highest
        made = {phrase: score * factor if score > 0.0 else score for phrase, score in phrases.items()}
        return boost.with_scores(made)

    positive = boost.with_scores({phrase: score for phrase, score in known.items() if score > 0.0})

    def occurrences(**options: Any) -> list[Counter[str]]:
        found = decoder.decode(log_probs, lengths, **options)
        found = found if isinstance(found, list) else [found]  # of one array [frames, columns]
        return [Counter(each[0] for each in positive.occurrences(one.text.split())) for one in found]

    before = occurrences()
    if not before:
        raise ValueError("log_probs: expected at least one utterance, got none")

    def shared_by(step: int) -> float:
        """The share of the utterances that have a false alarm."""
        after = occurrences(boost=scaled(known, step))
        return sum(bool(now - then) for now, then in zip(after, before, strict=True)) / len(before)

    best = _largest(steps, lambda step: shared_by(step) <= share)
    if best == 0:
        raise ValueError(
            f"Boost.calibrate: with scores of {1 / STEPS} at most the share of utterances with a false alarm is "
            f"{shared_by(1):.3g}, expected at most {share:g}; give more speech, leave out phrases that sound like what "
            "is said in it, or accept more false alarms"
        )
    return scaled(dict(boost.phrases), best)


def _steps(decoder: Decoder, largest: float | None) -> int:
    """The number of steps to the largest score."""
    if largest is None:
        check_real("largest", decoder.options.beam, "of your own, because the decoder's beam is infinite", above=0.0)
        largest = min(decoder.options.beam / 2.0, LARGEST_SCORE)
    check_real("largest", largest, f"from {1 / STEPS} to {LARGEST_SCORE:g}", above=1 / STEPS, inclusive=True)
    if largest > LARGEST_SCORE:
        raise ValueError(f"largest: expected a number from {1 / STEPS} to {LARGEST_SCORE:g}, got {largest!r}")
    return int(largest * STEPS)


def _largest(steps: int, is_good: Callable[[int], bool]) -> int:
    """The largest good step, by halving; 0 is good, and steps are taken to be worse the larger they are."""
    if is_good(steps):
        return steps
    good, bad = 0, steps
    while bad - good > 1:
        middle = (good + bad) // 2
        if is_good(middle):
            good = middle
        else:
            bad = middle
    return good
