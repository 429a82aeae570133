"""Word error counts against an edit distance written out in Python."""

from hypothesis import given
from hypothesis import strategies as st

from arcbeam.report.score import Score
from tests.lattice.oracle import edit_distance

TEXT = st.lists(st.sampled_from(["a", "b", "c"]), max_size=6).map(" ".join)


@given(st.lists(st.tuples(TEXT, TEXT), max_size=5))
def test_errors_are_the_edit_distance(pairs):
    score = Score(keep_counts=True)
    for reference, transcript in pairs:
        score.add([reference], [transcript])
    distances = [edit_distance(r.split(), t.split()) for r, t in pairs]
    assert score.errors == sum(distances)
    assert score.wrong == sum(d > 0 for d in distances)
    assert score.by_utterance == [(d, len(r.split())) for d, (r, _) in zip(distances, pairs, strict=True)]
    assert score.words == sum(len(r.split()) for r, _ in pairs)
    assert score.deletions - score.insertions == sum(len(r.split()) - len(t.split()) for r, t in pairs)


def test_text_of_a_score():
    score = Score()
    score.add(["a b c d", "x"], ["a q c", "x y"])
    assert str(score) == (
        "WER 60.00 % [ 3 / 5: 1 substitutions, 1 insertions, 1 deletions ], 2 of 2 utterances with errors"
    )


def test_no_words_no_rate():
    score = Score()
    score.add([], [])
    score.add([""], ["a"])
    assert score.wer is None
    assert "undefined" in str(score)


def test_case():
    score, blind = Score(), Score(ignore_case=True)
    for s in (score, blind):
        s.add(["THE CAT"], ["the  cat"])
    assert (score.errors, blind.errors) == (2, 0)
