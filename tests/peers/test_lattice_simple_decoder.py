"""kaldi-decoder's LatticeSimpleDecoder finds the same links, but those within a thousandth of a beam.

Its costs are sums over the whole utterance in float32. So its lattice lies between two of ours: one whose lattice beam
is a thousandth smaller, and one whose beams are a thousandth larger.
"""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from arcbeam import CtcDecoder, Graph
from benchmarks.data import datasets
from tests.benchmarks.test_openfst_writer import DENSE_GRAPHS

kaldi_decoder = pytest.importorskip("kaldi_decoder", reason="the peer is missing: pip install '.[peers]'")
kaldifst = pytest.importorskip("kaldifst")

pytestmark = pytest.mark.filterwarnings("ignore:log_probs. expected:UserWarning")
NEAR = 1e-3


def as_fst(graph):
    """The graph for the peer; the output label of an arc is its number plus one, so that a lattice names arcs."""
    fst = kaldifst.StdVectorFst()
    for state in range(graph.num_states):
        fst.add_state()
        if math.isfinite(graph.finals[state]):
            fst.set_final(state, float(graph.finals[state]))
    fst.start = graph.start
    source = np.repeat(np.arange(graph.num_states), np.diff(graph.states["first_arc"]))
    labels = np.where(graph.columns == 0xFFFF, 0, graph.columns.astype(np.int64) + 1)
    columns = source, labels, graph.targets["weight"], graph.targets["next_state"]
    for arc, (state, label, weight, target) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
        fst.add_arc(state, kaldifst.StdArc(ilabel=label, olabel=arc + 1, weight=weight, nextstate=target))
    return fst


def links_of_peer(fst, log_probs, beam, lattice_beam):
    """{(step of the source, arc)}; None if nothing is alive at the end."""
    config = kaldi_decoder.LatticeSimpleDecoderConfig(beam=beam, lattice_beam=lattice_beam, determinize_lattice=False)
    decoder = kaldi_decoder.LatticeSimpleDecoder(fst, config)
    decodable = kaldi_decoder.DecodableCtc(log_probs)
    if not decoder.decode(decodable):
        return None
    ok, lattice = decoder.get_raw_lattice()
    if not ok:
        return None
    leaving = {}
    for line in lattice.to_str(show_weight_one=True).splitlines():
        fields = line.split()
        if len(fields) == 5:  # not a final state: source, target, input and output label, weight
            source, target, label, number = map(int, fields[:4])
            leaving.setdefault(source, []).append((target, label, number))
    steps, waiting, links = {lattice.start: 0}, [lattice.start], set()
    for state in waiting:
        for target, label, number in leaving.get(state, []):
            if target not in steps:
                steps[target] = steps[state] + (label != 0)
                waiting.append(target)
            links.add((steps[state], number - 1))
    return links


def our_links(graph, log_probs, **beams):
    decoder = CtcDecoder(graph, device="cpu", threads=1, max_active=None, **beams)
    (found,) = decoder.decode([log_probs], lattice=True)
    lattice = found._results.lattices.lattices.arrays(0)
    steps = np.searchsorted(lattice["first_token"], lattice["links"]["source"], side="right") - 1
    return set(zip(steps.tolist(), lattice["links"]["arc"].tolist(), strict=True)), found.complete


def compared(graph, fst, log_probs, beam, lattice_beam):
    """(our fewest links, the peer's, our most)."""
    fewest, complete = our_links(graph, log_probs, beam=beam, lattice_beam=max(0.0, lattice_beam - NEAR))
    most, _ = our_links(graph, log_probs, beam=beam + NEAR, lattice_beam=lattice_beam + NEAR)
    return fewest, links_of_peer(fst, log_probs, beam, lattice_beam) if complete else None, most


@settings(deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(DENSE_GRAPHS, st.integers(1, 8), st.integers(0, 2**32 - 1), st.sampled_from([0.5, 2.0, 8.0]))
def test_random_graphs(graph, frames, seed, lattice_beam):
    log_probs = -np.random.default_rng(seed).integers(0, 320, (frames, 4)).astype(np.float32) / 64
    fewest, peer, most = compared(graph, as_fst(graph), log_probs, 100.0, lattice_beam)
    assume(peer is not None)  # of 400 drawn all are
    assert fewest <= peer <= most


def test_speech_of_the_demo(demo_data):
    from arcbeam.cli.demo import demo_graph

    archive = np.load(demo_data / "log_probs.npz")
    graph = demo_graph(demo_data, rebuild=False)
    check_speech(graph, as_fst(graph), np.split(archive["log_probs"], np.cumsum(archive["lengths"])[:-1]))


@pytest.mark.long  # the peer's graph takes minutes to make, and gigabytes
@pytest.mark.parametrize("name", ["test-other-100", "an4-test"])
def test_real_speech(char_3gram, name):
    graph = Graph.load(char_3gram.arcbeam)
    check_speech(graph, as_fst(graph), datasets.load(name).utterances)


def check_speech(graph, fst, utterances):
    agree = links = 0
    short = sorted(utterances, key=len)[:20]
    for log_probs in short:
        given = np.ascontiguousarray(log_probs, np.float32)
        fewest, peer, most = compared(graph, fst, given, 17.0, 8.0)
        assert fewest <= peer <= most
        agree += fewest == most
        links += len(peer)
    assert agree >= len(short) // 2
    assert links > 2 * sum(map(len, short))
