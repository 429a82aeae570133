"""Why confidences of riva's differ: lattices that are made up, each with one thing that is another."""

import itertools
import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

from arcbeam import read_lattices
from arcbeam.ctc.lattice import _lattice
from benchmarks.tasks import riva_confidences as task
from benchmarks.tasks.kaldi_risk import kaldi_risk
from tests.benchmarks.kaldi_lattices import kaldi_lattice

ONE, TWO, THREE = (1, 2, 3), (1, 4, 3), (1, 3)
SCORES = {ONE: -10.0, TWO: -11.0, THREE: -12.5}


def paths(costs):
    """A lattice that has a path of its own for each sequence of words."""
    arcs, ends, state = [], {}, 1
    for words, cost in costs.items():
        at = 0
        for word in words:
            arcs.append((at, state, word, cost / len(words)))
            at, state = state, state + 1
        ends[at] = 0.0
    return kaldi_lattice(arcs, ends)


def in_pieces(lattice):
    """What arcbeam says of a lattice: cut where all paths meet."""
    found, labels = task.of_kaldi(lattice)
    said = _lattice.mbr(found, 0, labels)
    return list(zip(said.words.tolist(), said.confidences.tolist(), strict=True))


def hypothesis(posteriors=None, scores=SCORES, confidences=None, lattice=None):
    """What is looked at of ours: words of minimum Bayes risk, the sequences of the lattice, and the lattice."""
    total = sum(math.exp(score) for score in scores.values())
    shares = posteriors or {words: math.exp(score) / total for words, score in scores.items()}
    entries = [
        SimpleNamespace(word_ids=np.array(words), score=score, posterior=shares[words])
        for words, score in sorted(scores.items(), key=lambda one: -one[1])
    ]
    lattice = lattice or paths({words: -math.log(share) for words, share in shares.items()})
    said = confidences or in_pieces(lattice)
    return SimpleNamespace(
        mbr=SimpleNamespace(words=[SimpleNamespace(word=str(w), confidence=c) for w, c in said]),
        lattice=SimpleNamespace(nbest=lambda n: entries[:n], word_symbols={}, to_kaldi=lambda: lattice),
    )


def saying(words):
    """As `decode_mbr` returns it."""
    return [(str(word), 0.0, 0.1, confidence) for word, confidence in words]


def riva(scores=SCORES, said=None):
    """What it says, and its lattice."""
    lattice = paths({words: -score for words, score in scores.items()})
    return saying(said or kaldi_risk(lattice)), lattice


def compared(ours, theirs):
    said, lattice = theirs
    return task.compare([ours], [[said]], [[lattice]])


def test_the_same_lattice_has_no_differences():
    found = compared(hypothesis(), riva())
    assert (found.words, found.of_one, found.differences, found.causes()) == (3, 0, [], {})
    assert found.largest < 1e-6


def test_alignments():
    """Ours adds up many alignments of the second sequence, riva has the best of them alone."""
    found = compared(hypothesis({ONE: 0.5, TWO: 0.45, THREE: 0.05}), riva())
    assert set(found.causes()) == {task.ALIGNMENTS}
    assert [one.word for one in found.differences] == ["2"]


def test_word_sequences_of_one_alone():
    fewer = {words: score for words, score in SCORES.items() if words != TWO}
    found = compared(hypothesis(), riva(fewer))
    assert set(found.causes()) == {task.SEQUENCES} and "2" in [one.word for one in found.differences]
    found = compared(hypothesis(scores=fewer), riva())
    assert set(found.causes()) == {task.SEQUENCES}


def test_other_scores():
    """All shifted by a hundred, as another offset would do; one sequence by two more."""
    found = compared(hypothesis(), riva({ONE: -110.0, TWO: -113.0, THREE: -112.5}))
    assert set(found.causes()) == {task.SCORES}
    found = compared(hypothesis(), riva({words: score - 100.0 for words, score in SCORES.items()}))
    assert not found.differences


def of_three_words():
    """Each one of two: by the recursion over the lattice the second is less sure than by its paths."""
    arcs = [(0, 1, 1, 0.0), (0, 1, 3, 0.5), (1, 2, 3, 0.0), (1, 2, 2, 0.5), (2, 3, 4, 0.0), (2, 3, 5, 0.75)]
    ways = itertools.product(arcs[:2], arcs[2:4], arcs[4:])
    return kaldi_lattice(arcs, {3: 0.0}), {tuple(arc[2] for arc in way): -sum(arc[3] for arc in way) for way in ways}


def test_where_paths_of_ours_meet():
    lattice, scores = of_three_words()
    found = compared(hypothesis(scores=scores, lattice=lattice), riva(scores))
    assert found.causes() == {task.JOINED: 1} and found.differences[0].word == "3"


def test_where_paths_of_rivas_meet():
    lattice, scores = of_three_words()
    found = task.compare([hypothesis(scores=scores)], [[saying(kaldi_risk(lattice))]], [[lattice]])
    assert found.causes() == {task.SHAPE: 1} and task.SHAPE in str(found.differences[0])


def said_twice():
    """A word that is said once or twice; all paths meet behind the first one."""
    lattice = kaldi_lattice([(0, 1, 1, 0.0), (1, 2, 1, 0.0), (1, 2, 0, 1.0), (2, 3, 2, 0.0)], {3: 0.0})
    return lattice, {(1, 1, 2): -0.0, (1, 2): -1.0}


def test_where_our_lattice_is_cut():
    """Cut, the lattice may lack the second of the words; in one piece, the first."""
    lattice, scores = said_twice()
    found = compared(hypothesis(scores=scores, lattice=lattice), riva(scores))
    assert found.causes() == {task.PIECES: 2}
    share = 1 / (1 + math.exp(-1.0))
    for one, values in zip(found.differences, [(1.0, share), (share, 1.0)], strict=True):
        assert (one.ours, one.theirs) == pytest.approx(values)
    assert [one.places for one in found.differences] == [(0, 0), (1, 1)]


def test_rivas_lattice_is_not_cut():
    """What it says of a lattice that we would cut needs no further cause."""
    lattice, scores = said_twice()
    ours = hypothesis(scores=scores)
    assert in_pieces(lattice)[0] == (1, 1.0) and ours.mbr.words[1].confidence == 1.0
    assert not task.compare([ours], [[saying(kaldi_risk(lattice))]], [[lattice]]).differences
    wrong = task.compare([ours], [[saying(in_pieces(lattice))]], [[lattice]])
    assert wrong.causes() == {task.UNEXPLAINED: 2}


def test_what_its_lattice_does_not_explain():
    said = [(1, 1.0), (2, 0.3), (3, 1.0)]
    found = compared(hypothesis(), riva(said=said))
    assert found.causes() == {task.UNEXPLAINED: 1}
    [one] = found.differences
    assert (one.theirs, one.word) == (0.3, "2") and sum(one.steps) == pytest.approx(one.theirs - one.ours)
    assert found.largest == pytest.approx(one.ours - 0.3)


def test_what_it_says_otherwise_when_it_is_asked_again():
    """Its words of another run, or its lattice of another run."""
    ours, (said, lattice) = hypothesis(), riva(said=[(1, 1.0), (2, 0.3), (3, 1.0)])
    other, other_lattice = riva({ONE: -12.0, TWO: -10.0, THREE: -12.5}, said=[(1, 1.0), (2, 0.35), (3, 1.0)])
    for runs, lattices, cause in (
        ([said, said], [lattice, lattice], task.UNEXPLAINED),
        ([said, said, other], [lattice, lattice], task.AGAIN),
        ([said, said], [lattice, other_lattice], task.AGAIN),
    ):
        found = task.compare([ours], [[run] for run in runs], [[one] for one in lattices])
        assert found.causes() == {cause: 1}


def test_the_lattice_that_is_nearest_to_its_answer():
    """Its answer is that of the lattice of another run."""
    scores = {ONE: -10.0, TWO: -13.0, THREE: -12.5}
    said, lattice = riva(scores)
    _, first = riva()
    for lattices in ((first, lattice), (lattice, first), (first, first, lattice)):
        found = task.compare([hypothesis()], [[said], [said]], [[one] for one in lattices])
        assert found.causes() == {task.SCORES: 1}
        assert len(found.differences[0].computed) == 1 + lattices.index(lattice)


def test_what_is_known_of_a_word_without_a_cause():
    ours, (said, lattice) = hypothesis(), riva(said=[(1, 1.0), (2, 0.3), (3, 1.0)])
    near, _ = riva(said=[(1, 1.0), (2, 0.31), (3, 1.0)])
    without = paths({THREE: 1.0})
    [one] = task.compare([ours], [[said], [near], [said]], [[lattice], [lattice]]).unexplained
    share = ours.mbr.words[1].confidence
    assert (one["word"], one["places"], one["theirs"], one["said"]) == ("2", (1, 1), 0.3, (0.3, 0.31, 0.3))
    assert one["ours"] == share and one["computed"] == pytest.approx((share, share))
    assert (one["our_words"], one["their_words"]) == ("1 2 3", "1 2 3")
    assert one["posteriors"] == pytest.approx([share, share])
    assert (one["lattices_with_the_word"], one["lattices_with_our_best_path"]) == (2, 2)
    assert json.loads(json.dumps(one))["cause"] == task.UNEXPLAINED
    looked_at = task.Utterance(0, ours, [[("2", 0.3)]], [lattice, without])
    record = looked_at.record(task.Difference(0, "2", share, 0.3, (), task.UNEXPLAINED, (1, 0), (), ()))
    assert record["posteriors"] == pytest.approx([share, 0.0])
    assert (record["lattices_with_the_word"], record["lattices_with_our_best_path"]) == (1, 1)
    assert task.compare([ours], [[riva()[0]]], [[lattice]]).unexplained == []


BEYOND = [(1, 1.0), (5, 0.36), (3, 1.0)]  # the second word is in no lattice


@pytest.mark.parametrize(
    ("ours", "of_riva", "cause"),
    [
        (SCORES, [SCORES, SCORES], task.LOST),
        (SCORES, [{THREE: -12.5}, SCORES], task.LOST),
        (SCORES | {(1, 5, 3): -20.0}, [SCORES, SCORES], task.UNEXPLAINED),  # it is in ours
        (SCORES, [SCORES, SCORES | {(1, 5, 3): -20.0}], task.UNEXPLAINED),  # riva has both it and our best path
        ({(1, 6, 3): -9.9, **SCORES}, [SCORES, SCORES], task.LOST),  # riva has lost our best path each time
        ({(1, 6, 3): -9.9, TWO: -11.0}, [SCORES, SCORES], task.UNEXPLAINED),  # riva's best path may cost less
        ({(1, 6, 3): -9.9, **SCORES}, [SCORES, {THREE: -12.5, (1, 7, 3): -9.8}], task.UNEXPLAINED),  # one of them
        ({(1, 6, 3): -9.9, **SCORES, (1, 5, 3): -20.0}, [SCORES, SCORES], task.UNEXPLAINED),
    ],
)
def test_a_word_that_only_a_search_without_the_best_path_can_say(ours, of_riva, cause):
    said = saying(BEYOND)
    lattices = [[paths({words: -score for words, score in scores.items()})] for scores in of_riva]
    found = task.compare([hypothesis(scores=ours)], [[said]] * 20, lattices)
    assert [one.cause for one in found.differences if one.word == "5"] == [cause]
    assert ("5" in [one["word"] for one in found.unexplained]) == (cause == task.UNEXPLAINED)


def test_a_lost_path_explains_nothing_elsewhere():
    """At its place it explains the word that we say, too; at another place of the utterance, nothing."""
    longer = {(*words, 7): score for words, score in SCORES.items()}
    said = saying([*BEYOND, (7, 0.5)])
    lattice = paths({words: -score for words, score in longer.items()})
    found = task.compare([hypothesis(scores=longer)], [[said]], [[lattice]])
    causes = {one.word: one.cause for one in found.differences}
    assert causes == {"5": task.LOST, "2": task.LOST, "7": task.UNEXPLAINED}
    assert [one["word"] for one in found.unexplained] == ["7"]


def test_without_its_lattices_nothing_is_explained():
    said, _ = riva(said=[(1, 1.0), (2, 0.3), (3, 1.0)])
    assert task.compare([hypothesis()], [[said]], []).causes() == {task.UNEXPLAINED: 1}


def test_words_that_one_of_the_two_says():
    """riva's best is our second: the word that only one of the two says counts 0 where it is not said."""
    found = compared(hypothesis(), riva({ONE: -12.0, TWO: -10.0, THREE: -12.5}))
    assert (found.words, found.of_one) == (4, 2)
    values = {one.word: (one.ours, one.theirs) for one in found.differences}
    assert values["2"][1] == 0.0 == values["4"][0] and set(found.causes()) == {task.SCORES}


def test_a_lattice_with_ways_that_lead_nowhere(tmp_path):
    path = tmp_path / "riva.txt"
    path.write_text("one \n0 1 1 1,0,1\n0 2 5 0,0,1\n1 3 2 1,0,1\n4 3 6 0,0,1\n3 0,0,\n\n")
    [(_, lattice)] = read_lattices(path)
    assert task.sequences_of(*task.of_kaldi(lattice)) == {(1, 2): 2.0}
    path.write_text("one \n\n")
    [(_, lattice)] = read_lattices(path)
    assert task.sequences_of(*task.of_kaldi(lattice)) == {(): 0.0}


def test_a_trie_has_its_sequences_and_no_other():
    costs = {ONE: 0.5, TWO: 0.0, THREE: 3.0, (1, 2): 2.0, (): 9.0}
    assert task.sequences_of(*task.trie(costs)) == costs
