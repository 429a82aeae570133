"""Results compared with references: word errors by utterance, by words and by length, and confidences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from arcbeam.report.results import Json
from arcbeam.report.score import Score

SIGNS = {"equal": "=", "substitute": "S", "delete": "D", "insert": "I"}
MOST_CONFUSIONS = 30
BINS = 10  # of confidences
LENGTHS = (0, 1, 6, 11, 21, 41, 1 << 31)  # words of the reference with which a group begins


def compare(results: Sequence[Json], references: Mapping[str, str], *, ignore_case: bool = False) -> tuple[Score, Json]:
    """The score of the results that have a reference, and the figures of the page.

    These results and the entries of their n-best lists get the number of their ``errors`` and the ``signs`` of their
    alignment: one of `SIGNS` for each pair of words.
    """
    places = [place for place, result in enumerate(results) if result["id"] in references]
    compared = [results[place] for place in places]
    for result in compared:
        result["reference"] = references[result["id"]]
    score = _align([(result, result["reference"]) for result in compared], ignore_case)
    listed = [(one, result["reference"]) for result in compared for one in result["nbest"]]
    _align(listed, ignore_case)
    oracle = sum(min(one["errors"] for one in [result, *result["nbest"]]) for result in compared)
    return score, {
        "score": {
            "utterances": score.utterances, "words": score.words, "errors": score.errors, "wrong": score.wrong,
            "substitutions": score.substitutions, "deletions": score.deletions, "insertions": score.insertions,
            "oracle_errors": oracle if listed else None,
        },
        "confusions": confusions(places, score),
        "calibration": calibration(compared),
        "lengths": by_length(score.by_utterance),
    }  # fmt: skip


def _align(pairs: Sequence[tuple[Json, str]], ignore_case: bool) -> Score:
    """Scores the texts of objects against references, and gives each object its errors and signs."""
    score = Score(ignore_case=ignore_case, keep_counts=True, keep_alignments=True)
    score.add([reference for _, reference in pairs], [one["text"] for one, _ in pairs])
    for (one, _), (_, _, chunks), (errors, _) in zip(pairs, score.alignments, score.by_utterance, strict=True):
        one["signs"], one["errors"] = _signs(chunks), errors
    return score


def _signs(chunks: Iterable[Any]) -> str:
    return "".join(
        SIGNS[one.type] * max(one.ref_end_idx - one.ref_start_idx, one.hyp_end_idx - one.hyp_start_idx)
        for one in chunks
    )


def confusions(places: Iterable[int], score: Score) -> list[Json]:
    """The most frequent errors and the places of their utterances; of equally frequent ones the first words."""
    found: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for place, (reference, transcript, chunks) in zip(places, score.alignments, strict=True):
        of_reference, of_transcript = iter(reference), iter(transcript)
        for sign in _signs(chunks):
            pair = "" if sign == "I" else next(of_reference), "" if sign == "D" else next(of_transcript)
            if sign != "=":
                found[pair].append(place)
    most = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))[:MOST_CONFUSIONS]
    return [{"pair": pair, "count": len(at), "utterances": sorted(set(at))} for pair, at in most]


def calibration(results: Iterable[Json]) -> Json | None:
    """The normalised cross entropy of the confidences, and words in groups by confidence; None without confidences."""
    import numpy as np

    from arcbeam.ctc.confidence.calibration import normalised_cross_entropy

    known = [
        (confidence, sign == "=")
        for result in results
        for confidence, sign in zip(result["confidences"], result["signs"].replace("D", ""), strict=False)
        if confidence is not None
    ]
    if not known:
        return None
    confidences, right = np.array([one for one, _ in known]), np.array([one for _, one in known])
    groups = np.minimum((confidences * BINS).astype(int), BINS - 1)
    entropy = normalised_cross_entropy(confidences, right)
    return {
        "nce": None if np.isnan(entropy) else entropy,
        "words": len(known),
        "bins": [
            {"words": int(of.sum()), "confidence": float(confidences[of].mean()), "right": float(right[of].mean())}
            for of in (groups == group for group in np.unique(groups))
        ],
    }


def by_length(counts: Iterable[tuple[int, int]]) -> list[Json]:
    """The errors and words of utterances in groups by the words of their references."""
    groups = []
    for least, beyond in pairwise(LENGTHS):
        of = [(errors, words) for errors, words in counts if least <= words < beyond]
        if of:
            errors, words = map(sum, zip(*of, strict=True))
            most = beyond - 1 if beyond != LENGTHS[-1] else None
            groups.append({"least": least, "most": most, "utterances": len(of), "errors": errors, "words": words})
    return groups
