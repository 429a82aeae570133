"""Graphs for the tests: one made by hand, random ones, and how the compiled columns must look, in plain Python."""

import math

import numpy as np
from hypothesis import strategies as st

from arcbeam.graph.graph import Graph, Pronunciations

TOKENS = ("a", "b", "<space>", "<blk>")
WORDS = ("<eps>", "ab", "ba", "über", " ")

# source, destination, input label, output label, cost; input labels out of order on purpose
ARCS = [
    (0, 1, 2, 0, 0.5),
    (0, 0, 4, 0, 0.25),
    (0, 2, 0, 0, 1.5),
    (1, 3, 1, 1, 0.125),
    (0, 1, 1, 2, 0.75),
    (2, 3, 0, 3, 2.0),
    (0, 3, 0, 4, -0.5),
    (0, 2, 2, 0, 0.0625),
    (3, 0, 3, 0, math.inf),
]
FINALS = {3: 0.5, 1: 0.0}


def example(**options):
    """A graph with everything a file can hold."""
    given = {
        "finals": FINALS,
        "tokens": TOKENS,
        "word_symbols": WORDS,
        "separator": "<space>",
        "pronunciations": Pronunciations.from_lists([(1, [0, 1]), (2, [1, 0]), (1, [0, 0, 1]), (4, [])]),
        "meta": {"topology": "compact", "lm_scale": 1.5, "order": 3},
    } | options
    return Graph.from_arcs(ARCS, **given)


@st.composite
def graphs(draw, max_states=6, columns=4):
    """Arcs, final costs and number of states of a graph whose epsilon arcs lead to larger states only."""
    num_states = draw(st.integers(1, max_states))
    cost = st.integers(-64, 640).map(lambda n: n / 64) | st.just(math.inf)
    arc = st.tuples(
        st.integers(0, num_states - 1),
        st.integers(0, num_states - 1),
        st.integers(0, columns),
        st.integers(0, 5),
        cost,
    )
    arcs = draw(st.lists(arc, max_size=30))
    arcs = [a for a in arcs if a[2] != 0 or a[0] < a[1]]
    finals = draw(st.dictionaries(st.integers(0, num_states - 1), st.integers(0, 640).map(lambda n: n / 64)))
    return arcs, finals, num_states


def layout(arcs, num_states):
    """(first_arc, first_emitting, smallest_weight, depth) of every state, and (next, weight, column, word) of every
    arc, as docs/design/memory.md says."""
    states, out = [], []
    depth = [0] * num_states
    for _ in range(num_states):  # longest paths, by relaxing as often as there are states
        for source, destination, label, _, _ in arcs:
            if label == 0:
                depth[destination] = max(depth[destination], depth[source] + 1)
    for state in range(num_states):
        leaving = [a for a in arcs if a[0] == state]
        epsilon = [a for a in leaving if a[2] == 0]
        emitting = sorted((a for a in leaving if a[2] != 0), key=lambda a: a[2])
        smallest = min((a[4] for a in emitting), default=math.inf)
        states.append((len(out), len(out) + len(epsilon), smallest, depth[state]))
        out += [(a[1], a[4], 0xFFFF if a[2] == 0 else a[2] - 1, a[3]) for a in epsilon + emitting]
    states.append((len(out), len(out), math.inf, 0))
    return states, out


def compiled(graph):
    """The columns of a graph in the form of `layout`."""
    out = zip(*(array.tolist() for array in (graph.targets, graph.columns, graph.words)), strict=True)
    return graph.states.tolist(), [(*target, column, word) for target, column, word in out]


def same(a, b):
    """Asserts that two graphs have equal bytes and equal attributes."""
    fields, others = a.fields(), b.fields()
    for name, array in fields.pop("columns").items():
        other = others["columns"][name]
        assert array.dtype == other.dtype and array.tobytes() == other.tobytes(), name
    others.pop("columns")
    spoken, other_spoken = fields.pop("pronunciations"), others.pop("pronunciations")
    assert (spoken is None) == (other_spoken is None)
    if spoken is not None:
        for name in ("words", "offsets", "columns"):
            assert np.array_equal(getattr(spoken, name), getattr(other_spoken, name)), name
    assert fields == others
