"""Oracle word errors of lattices in Kaldi's form, worked by hand."""

from arcbeam import read_lattices
from benchmarks.tasks import oracle


def test_lattices_in_kaldis_form(tmp_path):
    """Of one with ways that lead nowhere, and of one without states: pruned, all paths but the best are gone."""
    path = tmp_path / "riva.txt"
    path.write_text("one \n0 1 1 1,0,1\n0 2 5 0,0,1\n0 3 2 5,0,1\n1 3 2 1,0,1\n4 3 6 0,0,1\n3 0,0,\n\ntwo \n\n")
    lattices = [lattice for _, lattice in read_lattices(path)]
    ids = {"a": 1, "b": 2, "c": 5}
    for reference, narrow, wide in (("a b", 0, 0), ("b", 1, 0), ("c b", 1, 1), ("unknown b", 1, 1)):
        words = reference.split()
        found = oracle.of_kaldi_lattices([words, []], lattices, [1.0, 4.0], ids)
        assert found == [(1.0, 100 * narrow / len(words)), (4.0, 100 * wide / len(words))]
    assert oracle.of_kaldi_lattices([["a"]], lattices[1:], [1.0], ids) == [(1.0, 100.0)]
