"""Lattices with a large language model: the GPU's engine gives the CPU's bytes, wherever the model is."""

import math
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import CtcDecoder, KenLM
from tests.decode import graphs, kenlm_files
from tests.decode.emulated_gpu import TIGHT
from tests.decode.lattices import lattices, packed
from tests.decode.test_lattice import BEAMS
from tests.decode.test_rescoring import language_models, with_words
from tests.hypothesis_examples import examples
from tests.rescore.test_rescore_cuda_engine import BATCH, GRAPH, LARGE, OPTIONS, ROOMY, SMALL, WORDS

LONG = [*BATCH, graphs.random_log_probs(7, 30, 12)]
PLACES = {
    "resident": {"placement": "resident"},
    "bucketed": {"placement": "host-direct", "gpu_budget": 512},
    "arcs asked": {"placement": "host", "threads": 2},
    "kenlm": {"placement": "cpu", "threads": 2},
}


@pytest.fixture(scope="module")
def kenlm(tmp_path_factory):
    kenlm_files.need_kenlm()
    return KenLM(kenlm_files.random_ngrams(WORDS[:44], 3, 5).write(tmp_path_factory.mktemp("kenlm") / "lm.arpa"))


@pytest.mark.parametrize("n", [2, None])
@pytest.mark.parametrize("room", [TIGHT, ROOMY, replace(ROOMY, links=8, lattice_bytes=1)])
@pytest.mark.parametrize("place", PLACES)
def test_equal_bytes(emulated_gpu, kenlm, place, room, n):
    emulated_gpu.begin_with(room)
    large = kenlm if place == "kenlm" else LARGE
    options = OPTIONS | {"language_model": large, "graph_language_model": SMALL, "unknown_words": "unk"}
    options |= {"hypotheses_per_state": n}
    found = lattices(CtcDecoder(GRAPH, device="cuda", **(options | PLACES[place])), LONG)
    wanted = lattices(CtcDecoder(GRAPH, device="cpu", **options), LONG)
    assert [packed(lattice) for lattice in found] == [packed(lattice) for lattice in wanted]
    assert sum(len(lattice["links"]) for lattice in found) > 200
    assert {name for name, _ in emulated_gpu.launched} == {"wide"}
    assert emulated_gpu.errors == []


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    graphs.graphs(blank=3),
    language_models(),
    st.lists(graphs.log_probs(), min_size=1, max_size=4),
    st.sampled_from([0.5, 2.0, math.inf]),
    st.sampled_from(BEAMS),
    st.sampled_from([None, 1, 2, 4]),
    st.sampled_from(["resident", "bucketed", "arcs asked"]),
)
def test_random_graphs(emulated_gpu, graph, models, batch, beam, lattice_beam, n, place):
    emulated_gpu.begin_with(TIGHT)
    graph = with_words(graph, models[1])
    options = {"language_model": models[0], "graph_language_model": models[1], "beam": beam, "acoustic_scale": 0.5}
    options |= {"hypotheses_per_state": n, "lattice_beam": lattice_beam}
    found = lattices(CtcDecoder(graph, device="cuda", **(options | PLACES[place])), batch)
    wanted = lattices(CtcDecoder(graph, device="cpu", **options), batch)
    assert [packed(lattice) for lattice in found] == [packed(lattice) for lattice in wanted]
