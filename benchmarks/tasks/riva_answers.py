"""riva-asrlib-decoder's n-best lists and minimum-Bayes-risk words compared with ours, difference by difference."""

from collections.abc import Sequence
from typing import Any

import numpy as np

CONFIDENCE = 0.02  # confidences may differ by so much: riva sums float32, and its lattice is determinised first


def missing_entries(ours: Sequence[Any], theirs: Sequence[Any]) -> list[str]:
    """riva's entries whose words are not among ours, a line for each.

    ours : hypotheses that were asked for n-best lists
    theirs : what `decode_nbest` returned
    """
    found = []
    for number, (hypothesis, entries) in enumerate(zip(ours, theirs, strict=True)):
        known = {tuple(entry.word_ids.tolist()) for entry in hypothesis.nbest}
        for place, entry in enumerate(entries):
            if tuple(word for word in entry.words if word) not in known:  # 0: its lists have epsilons, too
                found.append(
                    f"utterance {number}, riva's entry {place} of score {entry.score:.3f}: words {entry.words}"
                )
    return found


def other_words(ours: Sequence[Any], theirs: Sequence[Any]) -> list[str]:
    """Utterances whose words of minimum Bayes risk differ, a line for each.

    ours : hypotheses that were asked for lattices
    theirs : what `decode_mbr` returned: (word, begin, end, confidence) of each word
    """
    said = [([word.word for word in h.mbr.words], [word for word, *_ in w]) for h, w in zip(ours, theirs, strict=True)]
    return [f"utterance {i}: {a!r}, riva: {b!r}" for i, (a, b) in enumerate(said) if a != b]


def confidence_differences(ours: Sequence[Any], theirs: Sequence[Any]) -> np.ndarray:
    """float64 : of each word of the utterances in which both have the same words of minimum Bayes risk."""
    found: list[float] = []
    for hypothesis, words in zip(ours, theirs, strict=True):
        own = hypothesis.mbr.words
        if [word.word for word in own] == [word for word, *_ in words]:
            found += [a.confidence - b[3] for a, b in zip(own, words, strict=True)]
    return np.array(found)
