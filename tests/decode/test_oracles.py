"""The CPU engine agrees with the oracles, whatever is searched with: boosts, new words, language models, lattices."""

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.decode import graphs, lattice_oracle, rescoring_oracle, test_boost, test_new_words
from tests.decode.boost_oracle import Boosts
from tests.decode.equality import as_the_oracle
from tests.decode.lattices import lattices
from tests.decode.test_lattice import BEAMS, COLLECT, decoder, follows_the_graph
from tests.decode.test_lattice import as_the_oracle as lattice_as_the_oracle
from tests.decode.test_rescoring import language_models, with_words
from tests.hypothesis_examples import examples

slow = settings(deadline=None, max_examples=examples(300), suppress_health_check=[HealthCheck.too_slow])
SCALES = st.sampled_from([(1.0, 1.0), (0.5, 1.0), (1.0, 0.5), (0.0, 0.0)])  # of the large model, and of the graph's

pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")


def searched(data, kind, rescored):
    """A graph, the graph as the oracle has it, a boost, what the oracle adds to a path, and options of the decoder."""
    graph = data.draw(test_new_words.open_graphs() if kind == "new words" else graphs.graphs(blank=3))
    boost, whole, models, scales, known = None, graph, {}, (1.0, 1.0), {}
    if rescored:
        (large, small), scales = data.draw(language_models()), data.draw(SCALES)
        graph = whole = with_words(graph, small, lm_scale=scales[1], **graph.meta)
        n = data.draw(st.sampled_from([None, 1, 2, 3]))
        models = {"language_model": large, "graph_language_model": small, "lm_scale": scales[0]}
        models["hypotheses_per_state"] = n
    if kind == "boosted":
        graph = whole = graph if rescored else test_boost.worded(graph)
        depth = data.draw(test_boost.DEPTH_SCALINGS)
        boost, known = test_boost.boost_of(graph, data.draw(test_boost.PHRASES), depth)
    elif kind == "new words":
        depth = 1.0
        boost, known, whole = test_new_words.boost_of(graph, data.draw(test_new_words.PHRASES))
    added = rescoring_oracle.Deviations(whole, large, small, *scales, keep=["<unk>"]) if rescored else None
    if boost is not None:
        added = Boosts(known, added, depth)
    return graph, whole, boost, added, models


@pytest.mark.parametrize("rescored", [False, True])
@pytest.mark.parametrize("kind", ["plain", "boosted", "new words"])
@slow
@given(
    st.data(),
    st.lists(graphs.log_probs(), min_size=1, max_size=3),
    st.sampled_from([0.0, 0.5, 2.0, 17.0, math.inf]),
    st.sampled_from([None, None, 1, 4]),
    st.sampled_from([1.0, 0.5]),
    st.sampled_from(BEAMS),
    st.sampled_from(COLLECT),
)
def test_paths_and_lattices(kind, rescored, data, batch, beam, max_active, scale, lattice_beam, collect_above):
    graph, whole, boost, added, models = searched(data, kind, rescored)
    options = {"beam": beam, "max_active": max_active, "acoustic_scale": scale}
    one = decoder(graph, collect_above=collect_above, lattice_beam=lattice_beam, **models, **options)
    options["hypotheses_per_state"] = models.get("hypotheses_per_state")
    for logp, got in zip(batch, one.decode(batch, boost=boost), strict=True):
        as_the_oracle(got, rescoring_oracle.decode(whole, added or lattice_oracle.NoDeviations(), logp, **options))
        assert got.word_ids.tolist() == [word for word in whole.words[got.arcs].tolist() if word]
    for logp, found in zip(batch, lattices(one, batch, boost=boost), strict=True):
        wanted = lattice_oracle.decode(whole, logp, deviations=added, lattice_beam=lattice_beam, **options)
        lattice_as_the_oracle(found, wanted)
        if added is None:
            follows_the_graph(found, graph, logp, scale)
