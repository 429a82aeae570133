"""max_active holds where everything ties: the first tokens in the total order leave, on both engines."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcbeam import Boost, CtcDecoder, Graph, KenLM, SymbolTable
from tests.decode import graphs, lattice_oracle, oracle, rescoring_oracle
from tests.decode.boost_oracle import Boosts
from tests.decode.equality import as_the_oracle, same
from tests.decode.language_models import WORDS, all_costs_equal
from tests.decode.lattices import lattices
from tests.decode.test_lattice import as_the_oracle as lattice_as_the_oracle
from tests.hypothesis_examples import examples

LOW = np.full((12, 32), -1e9, np.float32)  # finite, and so low that no weight of a graph counts beside it
pytestmark = [
    pytest.mark.filterwarnings("ignore:boost. :UserWarning"),
    pytest.mark.filterwarnings("ignore:log_probs. expected the best column:UserWarning"),
]


def tied_graph(seed, states=60, arcs=200, columns=4, weights=(0.0,)):
    """A graph of few different weights, in which most tokens of a frame cost the same."""
    rng = np.random.default_rng(seed)
    source, target, labels = (rng.integers(0, n, arcs) for n in (states, states, columns + 1))
    source, target = np.where(labels == 0, np.minimum(source, target), source), np.maximum(source, target)
    labels[source == target] = 1
    words = np.where(rng.random(arcs) < 0.3, rng.integers(1, 50, arcs), 0)
    return Graph.from_arcs(
        (source, target, labels, words, rng.choice(np.float32(weights), arcs)), start=0, num_states=states,
        num_columns=columns, finals=dict.fromkeys(range(0, states, 3), 0.0),
        word_symbols=SymbolTable.from_list(["<eps>", *WORDS]),
    )  # fmt: skip


def tied_rows(seed, frames=8, columns=4):
    """Log-probs of two values."""
    return np.random.default_rng(seed).choice(np.float32([-1.0, -1.0, -2.0]), (frames, columns))


def test_by_hand(device):
    """Of three tokens that tie, those of states 1 and 2 leave, so state 3's way to the end is not found."""
    arcs = [(0, 1, 1, 0, 0.0), (0, 2, 1, 0, 0.0), (0, 3, 1, 0, 0.0), (1, 4, 1, 0, 0.0), (2, 5, 1, 0, 0.0)]
    graph = Graph.from_arcs([*arcs, (3, 6, 1, 0, 0.0)], start=0, finals={6: 0.0}, num_columns=1)
    logp = np.zeros((2, 1), np.float32)
    (all_three,) = CtcDecoder(graph, device=device, max_active=3).decode([logp])
    assert (all_three.reached_final, all_three.arcs.tolist()) == (True, [2, 5])
    (two,) = CtcDecoder(graph, device=device, max_active=2).decode([logp])
    assert (two.reached_final, two.arcs.tolist()) == (False, [0, 3])


@settings(max_examples=examples(150), deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 2, 3, 7, 20]),
    st.sampled_from([(0.0,), (0.0, 1.0)]),
    st.sampled_from([0.0, 1.0, 4.0]),
)
def test_agrees_with_the_oracle(seed, max_active, weights, beam):
    graph, batch = tied_graph(seed, weights=weights), [tied_rows(seed + 1), LOW[:6, :4]]
    options = {"beam": beam, "max_active": max_active}
    one = CtcDecoder(graph, device="cpu", threads=2, lattice_beam=2.0, **options)
    for logp, got in zip(batch, one.decode(batch), strict=True):
        as_the_oracle(got, oracle.decode(graph, logp, **options))
    for logp, found in zip(batch, lattices(one, batch), strict=True):
        lattice_as_the_oracle(found, lattice_oracle.decode(graph, logp, lattice_beam=2.0, **options))


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 1000), st.sampled_from([1, 2, 5, 12]), st.sampled_from([None, 2]), st.booleans())
def test_histories_of_one_state_agree_with_the_oracle(seed, max_active, n, boosted):
    """More histories than max_active tie in one state: the smallest of them leave."""
    graph, (large, small) = all_costs_equal(seed, arcs=96, words=WORDS[:5])
    logp = np.full((6, 3), -1.0, np.float32)
    options = {"beam": 2.0, "max_active": max_active, "hypotheses_per_state": n}
    deviations = rescoring_oracle.Deviations(graph, large, small)
    phrases = {(1, 2, 3): 0.0, (2, 4): 0.0, (3, 1): 0.0, (5, 5): 0.0}
    boost = Boost({" ".join(WORDS[w - 1] for w in phrase): 0.0 for phrase in phrases}) if boosted else None
    if boosted:
        written = set(graph.words.tolist())
        known = {phrase: score for phrase, score in phrases.items() if written.issuperset(phrase)}
        deviations = Boosts(known, deviations)
    one = CtcDecoder(graph, language_model=large, graph_language_model=small, device="cpu", threads=1, **options)
    (got,) = one.decode([logp], boost=boost)
    as_the_oracle(got, rescoring_oracle.decode(graph, deviations, logp, **options))
    assert one.stats.expanded_tokens <= max_active * len(logp)


@pytest.mark.parametrize("boosted", [False, True])
@pytest.mark.parametrize("kind", ["none", "resident", "host", "kenlm"])
@pytest.mark.parametrize("max_active", [1, 3, 10])
def test_both_engines(emulated_gpu, tmp_path, kind, boosted, max_active):
    batch = [np.full((7, 3), -1.0, np.float32), LOW[:5, :3], tied_rows(3, 6, 3)]
    given = {"beam": 2.0, "max_active": max_active, "lattice_beam": 2.0, "threads": 2}
    boost = Boost({"w1 w2 w3": 0.0, "w2 w4": 0.0, "w3 w1": 0.0, "w5 w5": 0.0, "a b": 0.0, "d a c": 0.0})
    where = {}
    if kind == "none":
        graph = tied_graph(4, columns=3)
    elif kind == "kenlm":
        from tests.decode import kenlm_files
        from tests.rescore.test_requests_emulated import tied_by_words

        kenlm_files.need_kenlm()
        graph, (large, small) = tied_by_words(tmp_path, 1)
        assert isinstance(large, KenLM)
        given |= {"language_model": large, "graph_language_model": small, "unknown_words": "unk"}
    else:
        graph, (large, small) = all_costs_equal(2, arcs=96)
        given |= {"language_model": large, "graph_language_model": small}
        where = {"placement": kind}
    on_gpu, on_cpu = (CtcDecoder(graph, device="cuda", **given, **where), CtcDecoder(graph, device="cpu", **given))
    requested = {"boost": boost} if boosted else {}
    same(on_gpu.decode(batch, **requested), on_cpu.decode(batch, **requested))
    for name in ("frames", "tokens", "leaving_arcs", "admitted"):
        assert getattr(on_gpu.stats, name) == getattr(on_cpu.stats, name), name
    assert on_cpu.stats.expanded_tokens <= max_active * on_cpu.stats.frames


@pytest.mark.parametrize("low", [0.0, -1e9, -1e30])
def test_frames_of_ties_are_bounded(device, low):
    """Whatever log-probs say, a frame follows the emitting arcs of max_active tokens, and no others."""
    frames, max_active = 100 if device == "cpu" else 5, 30
    graph = graphs.random_graph(1, states=2000 if device == "cpu" else 300)
    one = CtcDecoder(graph, device=device, max_active=max_active, threads=1)
    one.decode([np.full((frames, graph.num_columns), low, np.float32)])
    states = graph.states
    degrees = states["first_arc"][1:].astype(np.int64) - states["first_emitting"][:-1]
    epsilons = states["first_emitting"][:-1].astype(np.int64) - states["first_arc"][:-1]
    most = int(np.sort(degrees)[-max_active:].sum())
    assert one.stats.frames == frames
    assert one.stats.leaving_arcs <= frames * most
    assert one.stats.tokens <= (frames + 1) * graph.num_states
    assert epsilons.sum() > 0
    if device == "cpu":
        assert max_active * (frames - 5) < one.stats.expanded_tokens <= max_active * frames
        few = CtcDecoder(graph, device=device, max_active=max_active // 3, threads=1)
        few.decode([np.full((frames, graph.num_columns), low, np.float32)])
        assert few.stats.tokens < one.stats.tokens


@pytest.mark.parametrize("frames", [1, 2, 5])
def test_chunks_and_threads_do_not_change_the_bytes(device, frames):
    graph = tied_graph(7, columns=32)
    one = CtcDecoder(graph, device=device, beam=4.0, max_active=5, threads=3)
    whole = one.decode([LOW, LOW[:7]])
    same(whole, CtcDecoder(graph, device="cpu", beam=4.0, max_active=5, threads=1).decode([LOW, LOW[:7]]))
    stream = one.stream()
    for first in range(0, len(LOW), frames):
        last = stream.decode_chunk(LOW[first : first + frames], last=first + frames >= len(LOW))
    assert last.arcs.tobytes() == whole[0].arcs.tobytes()
