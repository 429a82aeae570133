"""The figures of the page, compared with what follows from edit distances and from counting by hand."""

import math

from hypothesis import given
from hypothesis import strategies as st

from arcbeam.report.comparison import compare
from arcbeam.report.results import read_results
from tests.lattice.oracle import edit_distance
from tests.report.test_score import TEXT


def compared(*results):
    """(score, figures, results) of (reference, transcript, alternatives)."""
    objects = [
        {"id": str(at), "text": text, "nbest": [{"text": one, "score": 0.0, "posterior": 0.5} for one in others]}
        for at, (_, text, *others) in enumerate(results)
    ]
    read = read_results(objects)
    said = {str(at): reference for at, (reference, *_) in enumerate(results) if reference is not None}
    return *compare(read, said), read


@given(st.lists(st.tuples(TEXT, TEXT, TEXT, TEXT), min_size=1, max_size=4))
def test_errors_alignments_and_the_oracle(utterances):
    score, figures, results = compared(*utterances)
    for (reference, text, *others), result in zip(utterances, results, strict=True):
        for found, one in ((text, result), *zip(others, result["nbest"], strict=True)):
            errors = edit_distance(reference.split(), found.split())
            assert one["errors"] == errors == len(one["signs"].replace("=", ""))
            assert len(one["signs"].replace("I", "")) == len(reference.split())
            assert len(one["signs"].replace("D", "")) == len(found.split())
    totals = figures["score"]
    assert totals["errors"] == score.errors == sum(result["errors"] for result in results)
    assert totals["oracle_errors"] == sum(
        min(edit_distance(r.split(), one.split()) for one in rest) for r, *rest in utterances
    )
    assert sum(one["count"] for one in figures["confusions"]) == score.errors
    assert [sum(one[key] for one in figures["lengths"]) for key in ("utterances", "errors", "words")] == [
        len(utterances), score.errors, score.words,
    ]  # fmt: skip


def test_confusions_with_their_utterances():
    _, figures, _ = compared(("a b", "a c"), (None, "z"), ("b x b", "c x c"), ("a", "a d"), ("d a", "a"))
    assert figures["confusions"] == [
        {"pair": ("b", "c"), "count": 3, "utterances": [0, 2]},
        {"pair": ("", "d"), "count": 1, "utterances": [3]},
        {"pair": ("d", ""), "count": 1, "utterances": [4]},
    ]
    assert figures["calibration"] is None and figures["score"]["oracle_errors"] is None
    assert figures["score"]["utterances"] == 4


def test_groups_by_length():
    long = " ".join("a" * 50)
    groups = compared(("", "b"), ("a", "a"), (" ".join("aaaaa"), ""), (" ".join("aaaaaa"), ""), (long, long))[1][
        "lengths"
    ]
    assert [(one["least"], one["most"], one["utterances"], one["errors"], one["words"]) for one in groups] == [
        (0, 0, 1, 1, 0), (1, 5, 2, 5, 6), (6, 10, 1, 6, 6), (41, None, 1, 0, 50),
    ]  # fmt: skip


def test_calibration_by_hand():
    words = [{"word": word, "confidence": sure} for word, sure in (("a", 1.0), ("x", 0.75), ("c", 0.78), ("d", 0.25))]
    results = read_results([{"id": "u", "text": "a x c d", "words": words}])
    sure = compare(results, {"u": "a b c"})[1]["calibration"]
    assert sure["words"] == 4
    assert sure["bins"] == [
        {"words": 1, "confidence": 0.25, "right": 0.0},
        {"words": 2, "confidence": 0.765, "right": 0.5},
        {"words": 1, "confidence": 1.0, "right": 1.0},
    ]
    certain = math.log(1 - 1e-7) + math.log(0.78) + math.log(1 - 0.75) + math.log(1 - 0.25)
    assert math.isclose(sure["nce"], 1 + certain / (4 * math.log(2)))
    results = read_results([{"id": "u", "text": "a", "words": words[:1]}])
    assert compare(results, {"u": "A"}, ignore_case=True)[1]["calibration"]["nce"] is None  # all words are right
