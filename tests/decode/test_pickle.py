"""Decoders go to other processes: pickled and copied."""

import copy
import pickle

from arcbeam import CtcDecoder, Graph
from tests.decode import graphs
from tests.decode.equality import same


def test_a_pickled_decoder_is_made_anew(device, tmp_path):
    built = graphs.random_graph(4, states=60, columns=12)
    built.save(tmp_path / "graph.arcbeam")
    batch = [graphs.random_log_probs(1, 4, 12)]
    decoder = CtcDecoder(Graph.load(tmp_path / "graph.arcbeam"), device=device, beam=4.0, max_active=20)
    wanted = decoder.decode(batch)
    data = pickle.dumps(decoder)
    assert len(data) < 2000, "the graph goes by its path"
    again = pickle.loads(data)
    assert (again.options, again.stats.frames) == (decoder.options, 0)
    same(again.decode(batch), wanted)
    twin = copy.copy(decoder)
    assert twin.graph is decoder.graph
    same(twin.decode(batch), wanted)
