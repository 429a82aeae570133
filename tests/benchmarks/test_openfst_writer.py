"""The OpenFst files that peers read hold the compiled graph arc by arc."""

from hypothesis import given
from hypothesis import strategies as st

from arcbeam import Graph
from benchmarks.data.openfst_writer import write_openfst


def graph_of(states, arcs, ends=1):
    """A graph whose last states are final."""
    arcs = [(s % states, d % states, label, word, cost) for s, d, label, word, cost in arcs]
    arcs = [(s, d, label if d > s else label or 1, word, cost) for s, d, label, word, cost in arcs]  # no epsilon cycle
    return Graph.from_arcs(
        arcs,
        finals={state: 0.25 * (states - state) for state in range(max(0, states - ends), states)},
        num_states=states,
        num_columns=4,
    )


ARC = st.tuples(
    st.integers(0, 9),
    st.integers(0, 9),
    st.integers(0, 4),
    st.integers(0, 5),
    st.integers(-64, 640).map(lambda w: w / 64),
)
GRAPHS = st.builds(graph_of, st.integers(1, 10), st.lists(ARC, max_size=30))
DENSE_GRAPHS = st.builds(graph_of, st.integers(1, 6), st.lists(ARC, min_size=20, max_size=40), st.just(6))


@given(GRAPHS)
def test_arcbeam_reads_the_same_graph_back(tmp_path_factory, graph):
    path = tmp_path_factory.mktemp("fst") / "graph.fst"
    write_openfst(graph, path)
    again = Graph.load(path, num_columns=4)
    for name in ("states", "targets", "columns", "words", "finals"):
        assert getattr(again, name).tobytes() == getattr(graph, name).tobytes()
