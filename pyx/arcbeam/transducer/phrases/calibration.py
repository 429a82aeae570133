"""Scores of a boosting tree from speech without its phrases: the largest that seldom put one where nobody said it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from arcbeam.core.false_alarms import STEPS, best_step, check_share, steps_to
from arcbeam.transducer.options import TransducerOptions

LARGEST_SCORE = 1000.0


class Decoder(Protocol):
    """What the calibration needs of a `TransducerDecoder`."""

    @property
    def options(self) -> TransducerOptions: ...  # noqa: D102

    @property
    def has_text(self) -> bool: ...  # noqa: D102

    def decode(self, encoder_output: Any, lengths: Any = None, **options: Any) -> Any: ...  # noqa: D102


class ScoredPhrases(Protocol):
    """What the calibration needs of a `BoostingTree`."""

    @property
    def phrases(self) -> Mapping[Any, float]: ...  # noqa: D102

    @property
    def tokens(self) -> Mapping[Any, list[tuple[int, ...]]]: ...  # noqa: D102

    def with_scores(self, phrases: Mapping[Any, float], /) -> Any: ...  # noqa: D102


Tree = TypeVar("Tree", bound=ScoredPhrases)


def calibrated(
    tree: Tree, decoder: Decoder, encoder_output: Any, lengths: Any, false_alarms: float, largest: float
) -> Tree:
    """What `BoostingTree.calibrate` says."""
    if not isinstance(getattr(decoder, "options", None), TransducerOptions):
        raise TypeError(f"decoder: expected an arcbeam.TransducerDecoder, got {type(decoder).__name__}")
    share, steps = check_share(false_alarms), steps_to(largest, LARGEST_SCORE)
    highest = max(tree.phrases.values(), default=0.0)
    if highest <= 0.0:
        raise ValueError(
            "BoostingTree.calibrate: expected at least one phrase with a score above 0, got none of "
            f"{len(tree.phrases):,}"
        )

    def scaled(step: int) -> Tree:
        top = step / STEPS
        made = {p: score / highest * top if score > 0.0 else score for p, score in tree.phrases.items()}
        return tree.with_scores(made)

    count = _counter(tree, decoder.has_text)

    def occurrences(step: int) -> list[Counter[Any]]:
        found = decoder.decode(encoder_output, lengths, **({"boost": scaled(step)} if step else {}))
        return [count(one) for one in (found if isinstance(found, list) else [found])]

    best = best_step(steps, share, occurrences, caller="BoostingTree.calibrate", speech="encoder_output")
    return scaled(best)


def _counter(tree: ScoredPhrases, has_text: bool) -> Callable[[Any], Counter[Any]]:
    """Counts the phrases above 0 in a hypothesis: of text by whole words, if there is text, and others by tokens."""
    texts: dict[tuple[Any, ...], Any] = {}
    others: dict[tuple[Any, ...], Any] = {}
    for phrase, segmentations in tree.tokens.items():
        if tree.phrases[phrase] > 0.0:
            if has_text and isinstance(phrase, str):
                texts[tuple(phrase.casefold().split())] = phrase
            else:
                others |= dict.fromkeys(segmentations, phrase)

    def count(hypothesis: Any) -> Counter[Any]:
        found = _within(hypothesis.tokens.tolist(), others)
        return found + _within(hypothesis.text.casefold().split(), texts) if texts else found

    return count


def _within(sequence: Sequence[Any], phrases: Mapping[tuple[Any, ...], Any]) -> Counter[Any]:
    """How often each phrase occurs in a sequence."""
    lengths = sorted(set(map(len, phrases)))
    places = range(len(sequence))
    parts = (tuple(sequence[at : at + length]) for at in places for length in lengths if at + length <= len(sequence))
    return Counter(phrases[part] for part in parts if part in phrases)
