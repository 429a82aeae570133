"""Why confidences of riva's differ: lattices that are made up, each with one thing that is another."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from arcbeam import read_lattices
from benchmarks.tasks import riva_confidences as task

ONE, TWO, THREE = (1, 2, 3), (1, 4, 3), (1, 3)
SCORES = {ONE: -10.0, TWO: -11.0, THREE: -12.5}


def hypothesis(posteriors=None, scores=SCORES, confidences=None):
    """What is looked at of ours: words of minimum Bayes risk, and the sequences of the lattice."""
    total = sum(math.exp(score) for score in scores.values())
    shares = posteriors or {words: math.exp(score) / total for words, score in scores.items()}
    entries = [
        SimpleNamespace(word_ids=np.array(words), score=score, posterior=shares[words])
        for words, score in scores.items()
    ]
    said = confidences or task.risk(*task.trie({words: -math.log(share) for words, share in shares.items()}))
    return SimpleNamespace(
        mbr=SimpleNamespace(words=[SimpleNamespace(word=str(w), confidence=c) for w, c in said]),
        lattice=SimpleNamespace(nbest=lambda n: entries, word_symbols={}),
    )


def riva(tmp_path, scores=SCORES, said=None):
    """Its lattice, a path for each sequence of words, and what it says."""
    lines, ends, state = [], [], 1
    for words, score in scores.items():
        at = 0
        for word in words:
            lines.append(f"{at} {state} {word} {-score / len(words)},0,1")
            at, state = state, state + 1
        ends.append(f"{at} 0,0,")
    path = tmp_path / "riva.txt"
    path.write_text("\n".join(["one ", *sorted(lines, key=lambda line: int(line.split()[0])), *ends, "", ""]))
    [(_, lattice)] = read_lattices(path)
    found = said or task.risk(*task.of_kaldi(lattice))
    return [(str(word), 0.0, 0.1, confidence) for word, confidence in found], lattice


def compared(ours, theirs):
    said, lattice = theirs
    return task.compare([ours], [said], [lattice])


def test_the_same_lattice_has_no_differences(tmp_path):
    found = compared(hypothesis(), riva(tmp_path))
    assert (found.words, found.of_one, found.differences, found.causes()) == (3, 0, [], {})
    assert found.largest < 1e-6


def test_alignments(tmp_path):
    """Ours adds up many alignments of the second sequence, riva has the best of them alone."""
    found = compared(hypothesis({ONE: 0.5, TWO: 0.45, THREE: 0.05}), riva(tmp_path))
    assert set(found.causes()) == {task.ALIGNMENTS}
    assert [one.word for one in found.differences] == ["2"]


def test_word_sequences_of_one_alone(tmp_path):
    fewer = {words: score for words, score in SCORES.items() if words != TWO}
    found = compared(hypothesis(), riva(tmp_path, fewer))
    assert set(found.causes()) == {task.SEQUENCES} and "2" in [one.word for one in found.differences]
    found = compared(hypothesis(scores=fewer), riva(tmp_path))
    assert set(found.causes()) == {task.SEQUENCES}


def test_other_scores(tmp_path):
    """All shifted by a hundred, as another offset would do; one sequence by two more."""
    found = compared(hypothesis(), riva(tmp_path, {ONE: -110.0, TWO: -113.0, THREE: -112.5}))
    assert set(found.causes()) == {task.SCORES}
    found = compared(hypothesis(), riva(tmp_path, {words: score - 100.0 for words, score in SCORES.items()}))
    assert not found.differences


def test_where_paths_of_ours_meet(tmp_path):
    said = [(1, 1.0), (2, 0.2), (3, 1.0)]
    found = compared(hypothesis(confidences=said), riva(tmp_path))
    assert found.causes() == {task.JOINED: 1} and found.differences[0].ours == 0.2


def test_where_paths_of_rivas_meet(tmp_path):
    """Two words, each one of two: by the recursion over the lattice the second is less sure than by its paths."""
    path = tmp_path / "riva.txt"
    path.write_text("one \n0 1 1 0,0,1\n0 1 3 0.5,0,1\n1 2 2 0.5,0,1\n1 2 3 0,0,1\n2 0,0,\n\n")
    [(_, lattice)] = read_lattices(path)
    said = [(str(word), 0.0, 0.1, confidence) for word, confidence in task.risk(*task.of_kaldi(lattice))]
    ours = hypothesis(scores={(1, 3): -0.0, (1, 2): -0.5, (3, 3): -0.5, (3, 2): -1.0})
    found = task.compare([ours], [said], [lattice])
    assert found.causes() == {task.SHAPE: 1} and task.SHAPE in str(found.differences[0])


def test_what_its_lattice_does_not_explain(tmp_path):
    said = [(1, 1.0), (2, 0.3), (3, 1.0)]
    found = compared(hypothesis(), riva(tmp_path, said=said))
    assert found.causes() == {task.UNEXPLAINED: 1}
    [one] = found.differences
    assert (one.theirs, one.word) == (0.3, "2") and sum(one.steps) == pytest.approx(one.theirs - one.ours)
    assert found.largest == pytest.approx(one.ours - 0.3)


def test_what_it_says_otherwise_when_it_is_asked_again(tmp_path):
    """Its words of another run, or its lattice of another run."""
    ours, (said, lattice) = hypothesis(), riva(tmp_path, said=[(1, 1.0), (2, 0.3), (3, 1.0)])
    other, other_lattice = riva(tmp_path, {ONE: -12.0, TWO: -10.0, THREE: -12.5}, said=[(1, 1.0), (2, 0.35), (3, 1.0)])
    for again, lattices_again, cause in (
        ([[said]], [[lattice]], task.UNEXPLAINED),
        ([[said], [other]], [[lattice]], task.AGAIN),
        ([[said]], [[other_lattice]], task.AGAIN),
    ):
        found = task.compare([ours], [said], [lattice], again, lattices_again)
        assert found.causes() == {cause: 1}


def test_without_its_lattices_nothing_is_explained(tmp_path):
    said, _ = riva(tmp_path, said=[(1, 1.0), (2, 0.3), (3, 1.0)])
    assert task.compare([hypothesis()], [said], None).causes() == {task.UNEXPLAINED: 1}


def test_words_that_one_of_the_two_says(tmp_path):
    """riva's best is our second: the word that only one of the two says counts 0 where it is not said."""
    found = compared(hypothesis(), riva(tmp_path, {ONE: -12.0, TWO: -10.0, THREE: -12.5}))
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
