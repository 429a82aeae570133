"""What must not change the bytes of a search with a large language model, and what the options do."""

import numpy as np
import pytest

from arcbeam import CtcDecoder, Graph
from tests.decode import graphs
from tests.decode.language_models import over, rough_models
from tests.decode.test_engine import as_bytes, padded
from tests.processes import in_threads

LIMITS = [*range(1, 9), None]


@pytest.fixture(scope="module")
def models():
    return rough_models(7)


@pytest.fixture(scope="module")
def graph(models):
    return over(graphs.random_graph(1), models[1])


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(2)
    return [graphs.random_log_probs(seed, int(rng.integers(0, 40))) for seed in range(16)]


def decoder(graph, models, **options):
    large, small = models
    settings = {"beam": 6.0, "max_active": 400, "threads": 2, "frame_shift": 0.02} | options
    return CtcDecoder(graph, language_model=large, graph_language_model=small, **settings)


@pytest.fixture(scope="module")
def answers(graph, models, batch):
    return {n: as_bytes(decoder(graph, models, hypotheses_per_state=n, threads=1).decode(batch)) for n in LIMITS}


def test_something_is_decoded_and_the_limit_matters(graph, models, batch, answers):
    found = decoder(graph, models).decode(batch)
    assert sum(len(h.words) for h in found) > 40
    assert any(h.rescoring_score != 0.0 for h in found)
    assert len({tuple(answer) for answer in answers.values()}) > 1
    totals = [sum(h.score for h in decoder(graph, models, hypotheses_per_state=n).decode(batch)) for n in (1, None)]
    assert totals[0] < totals[1]


@pytest.mark.parametrize("n", LIMITS)
def test_threads_order_split_and_rerun(graph, models, batch, answers, n):
    order = np.random.default_rng(0).permutation(len(batch))
    for threads in (2, 5):
        one = decoder(graph, models, hypotheses_per_state=n, threads=threads)
        assert as_bytes(one.decode(batch)) == answers[n]
        shuffled = as_bytes(one.decode([batch[i] for i in order]))
        assert [shuffled[int(np.flatnonzero(order == i)[0])] for i in range(len(batch))] == answers[n]
        assert [as_bytes(one.decode([logp]))[0] for logp in batch] == answers[n]


@pytest.mark.parametrize("n", [1, 3, None])
def test_list_or_padded_and_log_collection(graph, models, batch, answers, n, monkeypatch):
    array, lengths = padded(batch)
    assert as_bytes(decoder(graph, models, hypotheses_per_state=n).decode(array, lengths)) == answers[n]
    monkeypatch.setattr("arcbeam.ctc.engines.COLLECT_ABOVE", 1)
    assert as_bytes(decoder(graph, models, hypotheses_per_state=n).decode(batch)) == answers[n]


def test_long_audio(graph, models, monkeypatch):
    long = [graphs.random_log_probs(3, 1500)]
    whole = as_bytes(decoder(graph, models, hypotheses_per_state=2, max_active=50).decode(long))
    monkeypatch.setattr("arcbeam.ctc.engines.COLLECT_ABOVE", 1000)
    assert as_bytes(decoder(graph, models, hypotheses_per_state=2, max_active=50).decode(long)) == whole


def test_python_threads_share_a_decoder(graph, models, batch, answers):
    shared = decoder(graph, models)
    assert in_threads(*[lambda: as_bytes(shared.decode(batch))] * 4) == [answers[None]] * 4


def test_the_models_may_be_mapped(graph, models, batch, answers, tmp_path):
    from arcbeam import LanguageModel

    for name, model in zip("ls", models, strict=True):
        model.save(tmp_path / name)
    mapped = LanguageModel.load(tmp_path / "l"), LanguageModel.load(tmp_path / "s", in_memory=True)
    assert as_bytes(decoder(graph, mapped).decode(batch)) == answers[None]


def test_scores_add_up_and_work_is_counted(graph, models, batch):
    one = decoder(graph, models, acoustic_scale=0.7, blank_penalty=0.5)
    for logp, found in zip(batch, one.decode(batch), strict=True):
        read = logp[np.arange(len(found.tokens)), found.tokens].sum()
        blanks = np.count_nonzero(found.tokens == graph.blank)
        assert found.acoustic_score == pytest.approx(0.7 * read - 0.5 * blanks, abs=1e-3)
        if found.reached_final:
            text = [graph.word_symbols[int(i)] for i in found.word_ids]
            assert found.rescoring_score == pytest.approx(models[0].score(text) - models[1].score(text), abs=1e-3)
    assert one.stats.lookups > one.stats.lookup_misses > 0
    assert one.memory().language_models == sum(m.info().bytes for m in models)
    plain = CtcDecoder(graph)
    plain.decode(batch[:2])
    assert (plain.stats.lookups, plain.memory().language_models) == (0, 0)


@pytest.mark.parametrize("first", ["a", "b"])
@pytest.mark.parametrize("vocabulary", [["a", "b", "c"], ["b", "a", "c"]])
@pytest.mark.parametrize("n", [1, 2, None])
def test_ties_are_settled_by_history(first, vocabulary, n):
    """Equal costs, one arc, one state and history to go to: the smaller history that it comes from wins."""
    from tests.decode.language_models import language_model

    unigrams = dict.fromkeys(["a", "b", "c", "</s>"], 1.0)
    histories = {(): (unigrams, 0.0), ("a",): ({"c": 0.5}, 0.25), ("b",): ({"c": 0.5}, 0.25)}
    large, small = language_model(vocabulary, histories), language_model(vocabulary, {(): (unigrams, 0.0)})
    words = ["<eps>", first, "ab".replace(first, ""), "c"]
    graph = Graph.from_arcs(
        [(0, 1, 1, 1, 0.0), (0, 1, 1, 2, 0.0), (1, 2, 1, 3, 0.0)], finals={2: 0.0}, num_columns=1, word_symbols=words,
        meta={"lm_digest": small.digest},
    )  # fmt: skip
    logp = np.zeros((2, 1), np.float32)
    for frames in (2, 1):
        found = decoder(graph, (large, small), hypotheses_per_state=n).decode([logp[:frames]])[0]
        assert found.text.split()[0] == vocabulary[0]
