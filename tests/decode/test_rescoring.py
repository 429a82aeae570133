"""The engine with a large language model: against the oracle of the law, and against outright composition."""

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import CtcDecoder, Graph, SymbolTable
from tests.decode import graphs, rescoring_oracle
from tests.decode.equality import as_the_oracle
from tests.decode.language_models import random_model
from tests.hypothesis_examples import examples

WORDS = ["a", "b", "c"]


def with_words(graph, small, **meta):
    """The same graph, with words and the model that it is said to be built with."""
    fields = {"word_symbols": SymbolTable.from_list(["<eps>", *WORDS]), "meta": {"lm_digest": small.digest} | meta}
    return Graph(**graph.fields() | fields)


@st.composite
def language_models(draw):
    """A large and a small model of the three words, in 64ths."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    orders = draw(st.sampled_from([(3, 2), (2, 1), (3, 3), (1, 1), (2, 3)]))
    few = draw(st.booleans())  # few different costs: ties
    costs = (lambda r: int(r.integers(0, 3)) / 2) if few else (lambda r: int(r.integers(0, 256)) / 64)
    return tuple(random_model(rng, WORDS, order, cost=costs) for order in orders)


slow = settings(deadline=None, max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow])


def test_agrees_with_the_oracle_on_real_weights():
    rng = np.random.default_rng(4)
    graph = graphs.random_graph(3, states=200)
    words = [f"w{i}" for i in range(1, 50)]
    large, small = (
        random_model(rng, words, order, share=share, cost=lambda r: float(r.gamma(4.0)))
        for order, share in ((3, 0.2), (2, 0.3))
    )
    fields = {"word_symbols": SymbolTable.from_list(["<eps>", *words]), "meta": {"lm_digest": small.digest}}
    graph = Graph(**graph.fields() | fields)
    deviations = rescoring_oracle.Deviations(graph, large, small, 0.8)
    batch = [graphs.random_log_probs(seed, 12) for seed in range(3)]
    for n in (1, 3, None):
        options = {"beam": 4.0, "max_active": 60, "hypotheses_per_state": n}
        one = CtcDecoder(graph, language_model=large, graph_language_model=small, lm_scale=0.8, **options)
        for logp, got in zip(batch, one.decode(batch), strict=True):
            wanted = rescoring_oracle.decode(graph, deviations, logp, **options)
            as_the_oracle(got, wanted)
            assert len(got.word_ids) > 2


def composed(graph, deviations):
    """The graph composed outright with the deviation automaton; and each arc's arc in the graph."""
    start = (graph.start, deviations.start())
    numbers = {start: 0}
    arcs, origin, finals = [], [], {}
    for state, history in (queue := [start]):
        here = numbers[state, history]
        final = graph.finals[state]
        if np.isfinite(final):
            finals[here] = float(np.float32(final + deviations.end(history)))
        for arc in range(int(graph.states["first_arc"][state]), int(graph.states["first_arc"][state + 1])):
            word = int(graph.words[arc])
            added, following = deviations(history, word) if word else (np.float32(0), history)
            target = int(graph.targets["next_state"][arc]), following
            if target not in numbers:
                numbers[target] = len(numbers)
                queue.append(target)
            column = int(graph.columns[arc])
            label = 0 if column == 0xFFFF else column + 1
            arcs.append((here, numbers[target], label, word, float(np.float32(graph.targets["weight"][arc] + added))))
            origin.append(arc)
    columns = graph.num_columns
    return Graph.from_arcs(arcs, start=0, finals=finals, num_states=len(numbers), num_columns=columns), origin


@slow
@given(graphs.graphs(max_states=6, max_arcs=15), language_models(), graphs.log_probs())
def test_unbounded_it_is_the_composition_with_the_deviation_automaton(graph, models, logp):
    large, small = models
    graph = with_words(graph, small)
    wide = {"beam": float("inf"), "max_active": None, "device": "cpu", "threads": 1}
    (got,) = CtcDecoder(graph, language_model=large, graph_language_model=small, **wide).decode([logp])
    whole, _ = composed(graph, rescoring_oracle.Deviations(graph, large, small))
    (wanted,) = CtcDecoder(whole, **wide).decode([logp])
    assert (got.score, got.partial_score) == (wanted.score, wanted.partial_score)
    assert (got.reached_final, got.complete) == (wanted.reached_final, wanted.complete)
    assert got.partial_score == pytest.approx(got.acoustic_score + got.graph_score + got.rescoring_score)
    # The words are the same unless several paths cost the same: then the path found costs that in the composition, too.
    if got.word_ids.tolist() != wanted.word_ids.tolist():
        linear = one_sentence(graph, got.word_ids.tolist())
        (again,) = CtcDecoder(linear, language_model=large, graph_language_model=small, **wide).decode([logp])
        assert again.score == wanted.score


def one_sentence(graph, word_ids):
    """The graph's paths that write these words."""
    arcs, finals = [], {}
    n = graph.num_states
    for position in range(len(word_ids) + 1):
        for state in range(n):
            if position == len(word_ids) and np.isfinite(graph.finals[state]):
                finals[position * n + state] = float(graph.finals[state])
            for arc in range(int(graph.states["first_arc"][state]), int(graph.states["first_arc"][state + 1])):
                word = int(graph.words[arc])
                if word and (position == len(word_ids) or word != word_ids[position]):
                    continue
                target = (position + bool(word)) * n + int(graph.targets["next_state"][arc])
                column = int(graph.columns[arc])
                label = 0 if column == 0xFFFF else column + 1
                arcs.append((position * n + state, target, label, word, float(graph.targets["weight"][arc])))
    return Graph.from_arcs(
        arcs, start=graph.start, finals=finals, num_states=n * (len(word_ids) + 1), num_columns=graph.num_columns,
        word_symbols=graph.word_symbols, meta=graph.meta,
    )  # fmt: skip


def test_a_large_model_that_is_the_small_one_changes_nothing():
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(1, 50)]
    model = random_model(rng, words, 2)
    fields = {"word_symbols": SymbolTable.from_list(["<eps>", *words]), "meta": {"lm_digest": model.digest}}
    graph = Graph(**graphs.random_graph(5, states=500).fields() | fields)
    batch = [graphs.random_log_probs(seed, 30) for seed in range(5)]
    plain = CtcDecoder(graph, beam=8.0).decode(batch)
    rescored = CtcDecoder(graph, beam=8.0, language_model=model, graph_language_model=model).decode(batch)
    assert [h.score for h in rescored] == [h.score for h in plain]
    assert [h.text for h in rescored] == [h.text for h in plain]
    assert all(h.rescoring_score == 0.0 for h in rescored)


def test_warnings_are_not_raised_for_a_graph_that_knows_its_model():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rng = np.random.default_rng(0)
        large, small = random_model(rng, WORDS, 2), random_model(rng, WORDS, 1)
        graph = with_words(Graph.from_arcs([(0, 0, 1, 1, 0.0)], finals={0: 0.0}, num_columns=1), small)
        CtcDecoder(graph, language_model=large, graph_language_model=small)
