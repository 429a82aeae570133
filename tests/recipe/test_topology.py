import pytest

from arcbeam.recipe.topology import TOPOLOGIES, make_topology
from tests.recipe.definitions import readings, said, strings


@pytest.mark.parametrize("loops", [True, False])
@pytest.mark.parametrize("name", TOPOLOGIES)
@pytest.mark.parametrize("columns", [2, 3])
def test_reads_what_the_definition_says(columns, name, loops):
    blank = 1
    fst = make_topology(name, columns, blank, loops).to_kaldifst()
    for frames in strings(range(1, columns + 1), 5):
        found = said(fst, frames)
        assert set(found) == readings(name, loops, blank + 1, frames), frames
        assert set(found.values()) <= {0.0}


@pytest.mark.parametrize("blank", [0, 4])
@pytest.mark.parametrize("name", TOPOLOGIES)
def test_sizes(name, blank):
    n = 4
    topology = make_topology(name, n + 1, blank)
    arcs = {"compact": 3 * n + 1, "normal": n * n + 2 * n + 1, "eesen": 3 * n + 4, "identity": n + 1}
    states = {"compact": n + 1, "normal": n + 1, "eesen": n + 3, "identity": 1}
    assert (topology.num_states, topology.num_arcs) == (states[name], arcs[name])
    assert blank + 1 not in topology.outputs


def test_identity_needs_no_blank():
    fst = make_topology("identity", 2, None).to_kaldifst()
    assert all(said(fst, frames) == {frames: 0.0} for frames in strings([1, 2], 3))


@pytest.mark.parametrize("name", [n for n in TOPOLOGIES if n != "identity"])
def test_others_need_a_blank(name):
    with pytest.raises(ValueError, match=f"{name}.*needs the column of the blank"):
        make_topology(name, 3, None)


def test_unknown_name_lists_the_known():
    with pytest.raises(ValueError, match="'compact', 'normal', 'eesen', 'identity', got 'ctc'"):
        make_topology("ctc", 3, 0)


def test_blank_out_of_range():
    with pytest.raises(ValueError, match="blank among 3 columns, got column 3"):
        make_topology("compact", 3, 3)
