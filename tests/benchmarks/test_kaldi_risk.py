"""Kaldi's minimum Bayes risk, as the comparison with riva computes it, beside Kaldi's own library."""

import math
import subprocess

import numpy as np
import pytest

from arcbeam import read_lattices, write_lattices
from benchmarks.tasks.kaldi_risk import kaldi_risk
from benchmarks.tasks.riva_confidences import of_kaldi, risk, side_by_side
from tests.benchmarks.kaldi_lattices import kaldi_lattice
from tests.lattice_files import kaldi_reader


def random_lattice(rng, silent):
    """One whose paths meet, of three words, so that they are often said twice; `silent`: with arcs without a word."""
    states = int(rng.integers(2, 8))
    arcs = [(state, state + 1, int(rng.integers(1, 4)), rng.exponential()) for state in range(states)]
    for _ in range(int(rng.integers(1, 9))):
        source, target = sorted(rng.choice(states + 1, 2, replace=False).tolist())
        arcs.append((source, target, int(rng.integers(0 if silent else 1, 4)), rng.exponential()))
    ends = {states: rng.exponential()}
    if rng.random() < 0.5:
        ends |= {int(rng.integers(1, states)): rng.exponential()}
    return kaldi_lattice(arcs, ends)


def off(ours, theirs):
    return max((abs(a - b) for _, (a, b) in side_by_side([ours, theirs], ours, theirs)), default=0.0)


def test_it_is_what_kaldis_library_says(tmp_path):
    program = kaldi_reader.build_kaldi(tmp_path, kaldi_reader.MBR)
    rng = np.random.default_rng(21)
    given = {str(number): random_lattice(rng, number % 2) for number in range(400)}
    given |= {"one word": kaldi_lattice([(0, 1, 7, 0.5)], {1: 0.0}), "an end alone": kaldi_lattice([], {0: 1.0})}
    write_lattices(tmp_path / "lattices.ark", [(key.replace(" ", "-"), lattice) for key, lattice in given.items()])
    done = subprocess.run([program, tmp_path / "lattices.ark"], check=True, capture_output=True, text=True, timeout=60)
    by_ours = 0
    for lattice, line in zip(given.values(), done.stdout.splitlines(), strict=True):
        _, *values = line.split()
        theirs = [(int(word), float(share)) for word, share in zip(values[::2], values[1::2], strict=True)]
        found = kaldi_risk(lattice)
        assert [word for word, _ in found] == [word for word, _ in theirs]
        assert [share for _, share in found] == pytest.approx([share for _, share in theirs], abs=1e-6)
        by_ours += off(risk(*of_kaldi(lattice)), theirs) > 0.02
    assert 0 < by_ours < 40  # where several alignments have equally few errors


def test_states_need_not_be_sorted():
    sorted_ones = kaldi_lattice([(0, 1, 1, 0.0), (0, 1, 2, 0.5), (1, 2, 3, 0.0), (1, 2, 4, 1.0)], {2: 0.5})
    others = kaldi_lattice([(0, 2, 1, 0.0), (0, 2, 2, 0.5), (2, 1, 3, 0.0), (2, 1, 4, 1.0)], {1: 0.5})
    share = 1 / (1 + math.exp(-0.5))
    found = kaldi_risk(others)
    assert found == kaldi_risk(sorted_ones) and found[0] == (1, pytest.approx(share))


def test_a_lattice_without_states_says_nothing(tmp_path):
    (tmp_path / "empty.ark").write_text("one \n\n")
    [(_, empty)] = read_lattices(tmp_path / "empty.ark")
    assert empty.num_states == 0 and kaldi_risk(empty) == []
