"""Scores of a boost from speech without its phrases: the largest that seldom put a phrase where it was not spoken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from arcbeam.core.checks import check_real
from arcbeam.core.false_alarms import STEPS, best_step, check_share, steps_to
from arcbeam.ctc.boost.phrases import LARGEST_SCORE
from arcbeam.ctc.options import DecoderOptions
from arcbeam.graph.graph import Graph


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
    share = check_share(false_alarms)
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
        top = step / STEPS
        made = {phrase: score / highest * top if score > 0.0 else score for phrase, score in phrases.items()}
        return boost.with_scores(made)

    positive = boost.with_scores({phrase: score for phrase, score in known.items() if score > 0.0})

    def occurrences(step: int) -> list[Counter[str]]:
        found = decoder.decode(log_probs, lengths, **({"boost": scaled(known, step)} if step else {}))
        found = found if isinstance(found, list) else [found]  # of one array [frames, columns]
        return [Counter(each[0] for each in positive.occurrences(one.text.split())) for one in found]

    best = best_step(steps, share, occurrences, caller="Boost.calibrate", speech="log_probs")
    return scaled(dict(boost.phrases), best)


def _steps(decoder: Decoder, largest: float | None) -> int:
    """The number of steps to the largest score."""
    if largest is None:
        check_real("largest", decoder.options.beam, "of your own, because the decoder's beam is infinite", above=0.0)
        largest = min(decoder.options.beam / 2.0, LARGEST_SCORE)
    return steps_to(largest, LARGEST_SCORE)
