"""The open slot of a graph: what it must be, in memory and in files."""

import math
import pickle

import numpy as np
import pytest

from arcbeam import FormatError, Graph, GraphError
from arcbeam.files import section_file
from arcbeam.graph.graph import OpenSlot
from tests.graph import examples

ARCS = [(0, 1, 1, 1, 0.0), (1, 0, 0, 0, 0.5), (0, 2, 0, 0, 0.0)]
SOUND = {"entrances": [0, 1], "weights": [1.0, 2.0], "exits": [1, 1]}


def from_arcs(**parts):
    types = {"entrances": "<u4", "weights": "<f4", "exits": "<u4"}
    slot = OpenSlot(**{name: np.array(part, types[name]) for name, part in (SOUND | parts).items()})
    return Graph.from_arcs(
        ARCS, finals={1: 0.0}, num_states=4, num_columns=2, word_symbols=["<eps>", "a"], open_slot=slot
    )


def test_depths_count_the_arc_that_leads_to_an_exit():
    whole = Graph.from_arcs([*ARCS, (3, 1, 0, 0, 0.0)], finals={1: 0.0}, num_states=4, num_columns=2)
    graph = from_arcs()
    assert graph.states["depth"][:3].tolist() == whole.states["depth"][:3].tolist() == [2, 1, 3]
    assert graph.max_depth == whole.max_depth == 3


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"entrances": [], "weights": [], "exits": []}, "at least one entrance"),
        ({"weights": [1.0]}, r"open_slot.weights: expected float32 \[2\], got float32 \[1\]"),
        ({"exits": [[1], [1]]}, r"open_slot.exits: expected uint32 \[2\], got uint32 \[2, 1\]"),
        ({"entrances": [1, 0]}, "open_slot.entrances: expected ascending states"),
        ({"entrances": [0, 4]}, "open_slot: names state 4, but the graph has states 0 to 3"),
        ({"exits": [1, 4]}, "open_slot: names state 4, but the graph has states 0 to 3"),
        ({"weights": [1.0, math.inf]}, "open_slot.weights: expected finite costs"),
        ({"weights": [1.0, math.nan]}, "open_slot.weights: expected finite costs"),
    ],
)
def test_bad_slots(parts, message):
    with pytest.raises(GraphError, match=message):
        from_arcs(**parts)


def test_slots_of_graphs_without_words():
    slot = from_arcs().open_slot
    with pytest.raises(GraphError, match="open_slot: expected a graph of words with word symbols"):
        Graph.from_arcs(ARCS, finals={1: 0.0}, num_columns=2, open_slot=slot)


@pytest.mark.parametrize(
    ("forge", "kind", "message"),
    [
        (lambda arrays: arrays["slot.exits"].fill(77), GraphError, "open_slot: names state 77"),
        (lambda arrays: arrays["slot.exits"].fill(3), GraphError, "an exit has the epsilon depth 0"),
        (lambda arrays: arrays.pop("slot.weights"), FormatError, "a section of the open slot is missing"),
        (lambda arrays: arrays.update({"slot.weights": np.zeros(1, "<f4")}), GraphError, "open_slot.weights: expected"),
    ],
)
def test_forged_files(tmp_path, monkeypatch, forge, kind, message):
    arcs = [*ARCS, (0, 3, 1, 0, 0.0)]
    made = OpenSlot(np.zeros(2, "<u4"), np.zeros(2, "<f4"), np.ones(2, "<u4"))
    graph = Graph.from_arcs(arcs, finals={1: 0.0}, num_columns=2, word_symbols=["<eps>", "a"], open_slot=made)
    write = section_file.write

    def forged(path, kind, arrays, *rest):
        arrays = {name: np.array(array) for name, array in arrays.items()}
        forge(arrays)
        write(path, kind, arrays, *rest)

    monkeypatch.setattr(section_file, "write", forged)
    graph.save(tmp_path / "forged.arcbeam")
    with pytest.raises(kind, match=message):
        Graph.load(tmp_path / "forged.arcbeam")


def test_pickled_and_saved(tmp_path):
    graph = from_arcs()
    graph.save(tmp_path / "graph.arcbeam")
    mapped = Graph.load(tmp_path / "graph.arcbeam")
    copied = Graph.load(tmp_path / "graph.arcbeam", in_memory=True)
    for other in (mapped, copied, *(pickle.loads(pickle.dumps(one)) for one in (graph, mapped, copied))):
        for part in SOUND:
            found, wanted = getattr(other.open_slot, part), getattr(graph.open_slot, part)
            assert (found.dtype, found.tolist()) == (wanted.dtype, wanted.tolist())
            assert not found.flags.writeable
        assert other.states.tobytes() == graph.states.tobytes()
        assert other.max_depth == graph.max_depth


def test_graphs_without_a_slot():
    graph = examples.example()
    assert graph.open_slot is None
    assert pickle.loads(pickle.dumps(graph)).open_slot is None
