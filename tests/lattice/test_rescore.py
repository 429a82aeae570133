"""Lattices rescored with a large language model: against all their paths, and against the search that rescores."""

import math
import pickle
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import CtcDecoder, Graph, GraphError, KenLM, LanguageModel, SymbolTable
from arcbeam.ctc.cpu._decode import rescoring_cost
from arcbeam.ctc.lattice._lattice_scores import rescore
from arcbeam.ctc.options import DecoderOptions
from arcbeam.ctc.rescoring import Rescoring, WordLabels
from tests.decode import graphs, kenlm_files
from tests.decode.language_models import language_model, over, random_model, rough_models
from tests.decode.lattices import packed
from tests.decode.rescoring_oracle import Deviations
from tests.decode.test_rescoring import WORDS, language_models, with_words
from tests.hypothesis_examples import examples
from tests.lattice_files.random_lattices import nothing, random_lattice

pytestmark = [
    pytest.mark.filterwarnings("ignore:log_probs. expected:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*probabilities do not sum to 1"),
]
slow = settings(deadline=None, max_examples=examples(300), suppress_health_check=[HealthCheck.too_slow])
NOTHING_CUT = {"beam": math.inf, "max_active": None, "device": "cpu", "threads": 1}


def arrays(lattice):
    """What C++ has of it."""
    return lattice._batch.lattices.arrays(lattice._index)


def leaving(lattice):
    found = [[] for _ in range(lattice.num_tokens)]
    for number, link in enumerate(lattice.links.tolist()):
        found[link[0]].append((number, link[1]))
    return found


def paths_of(lattice, most=2000):
    """{arcs: cost} of all paths, from first token to end; None if there are too many."""
    found, waiting, links_of = {}, [(0, (), 0.0)], leaving(lattice)
    for token, arcs, cost in waiting:
        if np.isfinite(lattice.final_scores[token]):
            found[arcs] = cost - float(lattice.final_scores[token])
        waiting += [
            (target, (*arcs, int(lattice.links["arc"][link])), cost - float(lattice.scores[link]))
            for link, target in links_of[token]
        ]
        if len(waiting) > most:
            return None
    return found


def deviation_of(graph, deviations, arcs, reached_final):
    history, cost = deviations.start(), 0.0
    for word in graph.words[list(arcs)].tolist():
        if word:
            added, history = deviations(history, word)
            cost += float(added)
    return cost + float(deviations.end(history)) if reached_final else cost


@slow
@given(
    graphs.graphs(),
    language_models(),
    graphs.log_probs(max_frames=4),
    st.sampled_from([0.0, 0.5, 2.0, math.inf]),
    st.sampled_from([0.0, 0.5, 2.0, math.inf]),
    st.sampled_from([(1.0, 1.0), (0.5, 1.0), (1.0, 0.5), (0.0, 0.0)]),
)
def test_the_paths_of_a_lattice_with_their_deviations(graph, models, logp, lattice_beam, beam, scales):
    large, small = models
    graph = with_words(graph, small, lm_scale=scales[1])
    [plain] = CtcDecoder(graph, beam=4.0, lattice_beam=lattice_beam, device="cpu", threads=1).decode(
        [logp], lattice=True
    )
    before = paths_of(plain.lattice)
    if before is None:
        return
    deviations = Deviations(graph, large, small, *scales)
    wanted = {arcs: cost + deviation_of(graph, deviations, arcs, plain.reached_final) for arcs, cost in before.items()}
    lattice = plain.lattice.rescore(large, small, lm_scale=scales[0], beam=beam)
    found = paths_of(lattice)
    best = min(wanted.values())
    assert lattice.total_cost == best and not lattice.truncated
    within = {arcs: cost for arcs, cost in wanted.items() if cost <= best + beam}
    assert {arcs: found[arcs] for arcs in within} == within  # weights are multiples of 1/64, so sums are exact
    assert found.items() <= wanted.items()  # no path is new, and no two are the same
    arcs = tuple(lattice.links["arc"][lattice.best].tolist())
    assert wanted[arcs] == best
    assert {arc for path in found for arc in path} == {arc for path in within for arc in path}
    whole = lattice.acoustic_scores + lattice.graph_scores + lattice.rescoring_scores
    assert np.array_equal(whole, lattice.scores)
    silent = lattice.columns == 0xFFFF
    assert not lattice.acoustic_scores[silent].any()
    assert (lattice.complete, lattice.reached_final) == (plain.complete, plain.reached_final)


@slow
@given(
    graphs.graphs(),
    language_models(),
    graphs.log_probs(),
    st.sampled_from([0.0, 0.5, 2.0, 8.0, math.inf]),
    st.sampled_from([(1.0, 1.0), (0.5, 1.0), (1.0, 0.5), (0.0, 0.0)]),
)
def test_where_nothing_was_cut_it_is_the_lattice_of_the_search_that_rescores(graph, models, logp, beam, scales):
    large, small = models
    graph = with_words(graph, small, lm_scale=scales[1])
    [plain] = CtcDecoder(graph, lattice_beam=math.inf, **NOTHING_CUT).decode([logp], lattice=True)
    models = {"language_model": large, "graph_language_model": small, "lm_scale": scales[0]}
    [on_the_fly] = CtcDecoder(graph, lattice_beam=beam, **models, **NOTHING_CUT).decode([logp], lattice=True)
    if plain.complete:  # else each has the best path of the frames that its own search has lived through
        assert packed(arrays(plain.lattice.rescore(large, small, lm_scale=scales[0], beam=beam))) == packed(
            arrays(on_the_fly.lattice)
        )


def test_the_same_words_on_real_weights():
    large, small = rough_models(7)
    graph = over(graphs.random_graph(1), small)
    batch = [graphs.random_log_probs(seed, 12) for seed in range(8)]
    plain = CtcDecoder(graph, lattice_beam=math.inf, **NOTHING_CUT).decode(batch, lattice=True)
    wanted = CtcDecoder(graph, language_model=large, graph_language_model=small, **NOTHING_CUT).decode(batch, nbest=20)
    changed = 0
    for one, other in zip(plain, wanted, strict=True):
        lattice = one.lattice.rescore(large, small, beam=16.0)
        assert (lattice.text, lattice.total_cost) == (other.text, pytest.approx(-other.score, rel=1e-5))
        changed += lattice.text != one.text
        found = lattice.nbest(20)
        assert [a.text for a in found] == [a.text for a in other.nbest]
        assert [a.posterior for a in found] == pytest.approx([a.posterior for a in other.nbest], rel=1e-3)
    assert changed > 4


@pytest.mark.parametrize("seed", range(4))
def test_kenlm(tmp_path, seed):
    """Paths, with what the models say of each; and the same bytes from another kind of file."""
    kenlm_files.need_kenlm()
    rng = np.random.default_rng(seed)
    small = random_model(rng, WORDS, 2)
    arcs = [(s, int(t), c, int(w), 0.25) for s in range(3) for c in (1, 2) for t, w in rng.integers(0, [3, 4], (2, 2))]
    graph = with_words(Graph.from_arcs(arcs, num_states=3, num_columns=2, finals={0: 0.0, 1: 0.5}), small)
    arpa = kenlm_files.random_ngrams(WORDS, 3, seed).write(tmp_path / "large.arpa")
    binary = kenlm_files.write_binary(arpa, tmp_path / "large.trie", kenlm_files.TRIE)
    large = KenLM(arpa)
    decoder = CtcDecoder(graph, lattice_beam=6.0, device="cpu", threads=1)
    rescoring = Rescoring(graph, large, small, DecoderOptions(lm_scale=0.5))
    [plain] = decoder.decode([graphs.random_log_probs(seed, 4, 2, sharpness=1.0)], lattice=True)
    wanted = {
        arcs: cost + rescoring_cost(graph, rescoring, np.array(arcs, np.uint32), plain.reached_final)
        for arcs, cost in paths_of(plain.lattice, most=100_000).items()
    }
    lattice = plain.lattice.rescore(large, small, lm_scale=0.5, beam=math.inf)
    assert paths_of(lattice, most=100_000) == pytest.approx(wanted, rel=1e-5)
    assert len(wanted) > 20
    assert lattice.total_cost == pytest.approx(min(wanted.values()), rel=1e-12)
    for same in (KenLM(binary), str(binary)):
        assert packed(arrays(plain.lattice.rescore(same, small, lm_scale=0.5, beam=math.inf))) == packed(
            arrays(lattice)
        )
    ours = plain.lattice.rescore(LanguageModel.build(arpa, progress=False), small, lm_scale=0.5, beam=math.inf)
    assert ours.total_cost == pytest.approx(lattice.total_cost, rel=1e-6)


@pytest.fixture(scope="module")
def models():
    return rough_models(7)


@pytest.fixture(scope="module")
def plain(models):
    graph = over(graphs.random_graph(1), models[1])
    decoder = CtcDecoder(graph, beam=10.0, lattice_beam=6.0, frame_shift=0.02, acoustic_scale=0.5, device="cpu")
    return decoder.decode([graphs.random_log_probs(seed, 20) for seed in range(3)], lattice=True, nbest=30)


def test_what_follows_from_a_lattice_follows_from_a_rescored_one(plain, models, tmp_path):
    [one, *_] = plain
    lattice = one.lattice.rescore(*models)
    assert lattice.text != one.text and lattice.lattice_beam == 6.0
    for name in ("acoustic_scale", "frame_shift", "num_frames", "complete", "reached_final"):
        assert getattr(lattice, name) == getattr(one.lattice, name)
    best, *rest = lattice.nbest(10)
    assert len(rest) == 9
    assert (best.text, best.score) == (lattice.text, pytest.approx(-lattice.total_cost, rel=1e-7))
    assert [word.word for word in best.words] == lattice.text.split()
    assert best.words[-1].end <= 20 * 0.02
    arcs = lattice.links["arc"][lattice.best]
    assert best.arcs.tolist() == arcs.tolist()
    parts = [lattice.graph_scores, lattice.rescoring_scores, lattice.acoustic_scores]
    end = lattice.links["target"][lattice.best[-1]]
    finals = [lattice.final_graph_scores[end], lattice.final_rescoring_scores[end], 0.0]
    of_best = [float(part[lattice.best].sum() + final) for part, final in zip(parts, finals, strict=True)]
    assert of_best == pytest.approx([best.graph_score, best.rescoring_score, best.acoustic_score], abs=1e-4)
    assert sum(of_best) == pytest.approx(best.score, abs=1e-4)
    assert lattice.posteriors[lattice.best].max() <= 1.0
    assert lattice.mbr.text and lattice.sausage
    assert lattice.oracle_wer(rest[3].text).errors == 0
    assert lattice.prune(0.0).text == lattice.text
    assert lattice.prune(2.0).lattice_beam == 2.0 == lattice.prune(2.0).prune(5.0).lattice_beam
    kaldi = lattice.to_kaldi().best_path(acoustic_scale=0.5)
    assert [lattice.word_symbols[word] for word in kaldi.words] == lattice.text.split()
    lattice.write(tmp_path / "rescored.fst")
    assert "->" in lattice.to_dot()
    again = pickle.loads(pickle.dumps(lattice))
    assert (again.text, again.lattice_beam, again.truncated) == (lattice.text, 6.0, False)
    assert again.rescoring_scores.tobytes() == lattice.rescoring_scores.tobytes()


def test_scales_and_unknown_words(plain, models):
    [one, *_] = plain
    large, small = models
    unchanged = one.lattice.rescore(small, small)
    assert packed(arrays(unchanged)).hex() != packed(arrays(one.lattice)).hex()  # tokens are split by history
    assert unchanged.text == one.text and not unchanged.rescoring_scores.any()
    known = [large.label(word) is not None for word in one.text.split()]
    assert all(known)
    fewer = random_model(np.random.default_rng(1), ["w1", "w2"], 2)
    with pytest.warns(UserWarning, match="it lacks 47 words"):
        kept = one.lattice.rescore(fewer, small, unknown_words="small")
    with pytest.warns(UserWarning, match="it lacks 47 words"):
        unk = one.lattice.rescore(fewer, small, unknown_words="unk")
    assert kept.total_cost != unk.total_cost
    scaled = one.lattice.rescore(large, small, lm_scale=0.0, graph_lm_scale=0.0)
    assert scaled.total_cost == pytest.approx(one.lattice.total_cost, rel=1e-12)


def test_words_are_looked_up_once_for_the_lattices_of_a_graph(plain, models):
    large, small = models
    other = rough_models(8)[0]
    with mock.patch.object(WordLabels, "find", side_effect=WordLabels.find) as find:
        for calls, model, unknown_words in ((1, other, "error"), (2, large, "error"), (3, large, "unk")):
            for scale in (1.0, 0.5):
                texts = [
                    h.lattice.rescore(model, small, lm_scale=scale, unknown_words=unknown_words).text for h in plain
                ]
            assert find.call_count == calls and len(texts) == 3


def test_a_search_that_died_keeps_its_path(models):
    graph = over(
        Graph.from_arcs([(0, 1, 1, 3, 0.5), (1, 1, 1, 0, 0.0)], num_states=2, num_columns=2, finals={}), models[1]
    )
    logp = np.array([[0.0, -1.0], [-1.0, -1.0], [-np.inf, 0.0]], np.float32)
    [one] = CtcDecoder(graph, device="cpu").decode([logp], lattice=True)
    lattice = one.lattice.rescore(*models)
    assert (lattice.complete, lattice.text, lattice.num_links) == (False, "w3", 2)
    deviations = Deviations(graph, *models)
    assert lattice.total_cost == pytest.approx(
        one.lattice.total_cost + float(deviations(deviations.start(), 3)[0]), rel=1e-6
    )
    assert lattice.nbest(2)[0].score == -math.inf


def test_an_utterance_without_a_lattice_stays_one(models):
    empty = nothing(over(graphs.random_graph(1), models[1]))
    assert empty.rescore(*models).num_tokens == 0
    assert empty.nbest(3) == [] and empty.text == ""


def test_a_limit_of_steps_is_said(plain, models):
    """From there on one history of each token goes on: paths keep their costs, and the best may be missed."""
    [one, *_] = plain
    large, small = models
    batch = one.lattice._batch
    rescoring = Rescoring(batch.graph, large, small, DecoderOptions())
    exact = one.lattice.rescore(large, small, beam=math.inf)
    links = set(map(tuple, zip(exact.states[exact.links["source"]], exact.links["arc"], strict=True)))
    costs = []
    for limit in (0, 100, 1000, 1 << 40):
        found, truncated = rescore(batch.graph, rescoring, batch.lattices, 0, math.inf, step_limit=limit)
        again = rescore(batch.graph, rescoring, batch.lattices, 0, math.inf, step_limit=limit)[0]
        found = found.arrays(0)
        assert packed(again.arrays(0)) == packed(found)
        assert truncated == (limit < 1 << 40)
        assert (
            set(map(tuple, zip(found["states"][found["links"]["source"]], found["links"]["arc"], strict=True))) <= links
        )
        arcs = found["links"]["arc"][found["best"]]
        wanted = _cost_of(one.lattice, arcs) + rescoring_cost(batch.graph, rescoring, arcs, one.reached_final)
        assert found["total_cost"] == pytest.approx(wanted, rel=1e-9)
        costs.append(found["total_cost"])
    assert costs[-1] == exact.total_cost and min(costs) == costs[-1] < costs[0]
    with mock.patch("arcbeam.ctc.lattice.lattice.rescore", side_effect=lambda *a: rescore(*a, step_limit=0)):
        assert one.lattice.rescore(large, small).truncated


def test_beyond_the_limit_the_best_history_goes_on():
    """Two histories in one token, which links without words pass on; there are four steps to where one of them goes."""
    costs = {"w1": 2.0, "w2": 0.5, "</s>": 1.0}
    large = language_model(["w1", "w2"], {(): (costs, 0.0), ("w1",): ({"w1": 1.0}, 0.0), ("w2",): ({"w1": 1.0}, 0.0)})
    small = language_model(["w1", "w2"], {(): (dict.fromkeys(costs, 1.0), 0.0)})
    arcs = [(0, 1, 1, 1, 0.0), (0, 1, 1, 2, 0.0), (1, 2, 1, 0, 0.0), (2, 3, 1, 0, 0.0)]
    graph = over(Graph.from_arcs(arcs, num_states=4, num_columns=1, finals={3: 0.0}), small, ["w1", "w2"])
    [one] = CtcDecoder(graph, device="cpu", threads=1).decode([np.zeros((3, 1), np.float32)], lattice=True)
    batch = one.lattice._batch
    rescoring = Rescoring(graph, large, small, DecoderOptions())
    for limit, histories in ((6, 2), (5, 2), (4, 1), (3, 1)):
        found, truncated = rescore(graph, rescoring, batch.lattices, 0, math.inf, step_limit=limit)
        found = found.arrays(0)
        assert truncated == (histories == 1) and len(found["end_extras"]) == histories
        assert [w for w in graph.words[found["links"]["arc"][found["best"]]].tolist() if w] == [2]
        assert found["total_cost"] == -0.5


def _cost_of(lattice, arcs):
    """The cost of the path of these arcs, its end included."""
    links_of, token, cost = leaving(lattice), 0, 0.0
    for arc in arcs.tolist():
        link, token = next(pair for pair in links_of[token] if lattice.links["arc"][pair[0]] == arc)
        cost -= float(lattice.scores[link])
    return cost - float(lattice.final_scores[token])


def test_a_million_links(models):
    large, small = models
    graph = over(graphs.random_graph(2, states=300), small)
    decoder = CtcDecoder(graph, beam=60.0, max_active=None, lattice_beam=math.inf, device="cpu")
    [one] = decoder.decode([graphs.random_log_probs(1, 900)], lattice=True)
    assert one.lattice.num_links > 1_000_000
    batch = one.lattice._batch
    rescoring = Rescoring(graph, large, small, DecoderOptions())
    found, truncated = rescore(graph, rescoring, batch.lattices, 0, 4.0, step_limit=1 << 21)
    assert truncated
    arcs = found.arrays(0)["links"]["arc"][found.arrays(0)["best"]]
    assert np.count_nonzero(graph.columns[arcs] != 0xFFFF) == 900


def test_bad_input(plain, models):
    [one, *_] = plain
    large, small = models
    rescored = one.lattice.rescore(large, small)
    with pytest.raises(ValueError, match="rescore: expected a lattice with the scores of its graph alone, got one"):
        rescored.rescore(large, small)
    graph = one.lattice._batch.graph
    on_the_fly = CtcDecoder(graph, language_model=large, graph_language_model=small, device="cpu", beam=4.0)
    [other] = on_the_fly.decode([graphs.random_log_probs(1, 3)], lattice=True)
    with pytest.raises(ValueError, match="decode without language_model="):
        other.lattice.rescore(large, small)
    for pickled in (one.lattice, rescored):
        again = pickle.loads(pickle.dumps(pickled))
        with pytest.raises(ValueError, match="rescore: expected a lattice with its graph, got one from a pickle"):
            again.rescore(large, small)
        with pytest.raises(ValueError, match="nbest: expected a lattice with its graph"):
            again.nbest(2)
    for models_, error, message in (
        ((None, small), TypeError, "language_model: expected an arcbeam.LanguageModel, an arcbeam.KenLM or a path"),
        ((large, 7), TypeError, "graph_language_model: expected an arcbeam.LanguageModel or a path, got int"),
        ((large, large), GraphError, "graph_language_model: expected the model that .*, or what build-lm made of it"),
        ((small, large), GraphError, r"graph_language_model: .* was given as language_model= .*: exchange the two"),
        ((random_model(np.random.default_rng(1), ["w1"], 1), small), GraphError, "language_model: it lacks 48 words"),
        (("no/such.arpa", small), FileNotFoundError, "no/such.arpa"),
    ):
        with pytest.raises(error, match=message):
            one.lattice.rescore(*models_)
    for options, error, message in (
        ({"lm_scale": -1.0}, ValueError, "lm_scale: expected a number of at least 0"),
        ({"lm_scale": "1"}, TypeError, "lm_scale: expected a number"),
        ({"graph_lm_scale": math.nan}, ValueError, "graph_lm_scale: expected a number"),
        ({"unknown_words": "drop"}, ValueError, "unknown_words: expected one of error, unk, small"),
        ({"beam": -1.0}, ValueError, "^beam: expected a number of at least 0"),
        ({"hypotheses_per_state": 3}, TypeError, "unknown option hypotheses_per_state: expected one of language_model"),
    ):
        with pytest.raises(error, match=message):
            one.lattice.rescore(large, small, **options)
    with pytest.raises(ValueError, match=r"^graph_language_model: expected the model that the graph was built with"):
        one.lattice.rescore(large)


def test_a_model_that_allows_no_path(models):
    small = models[1]
    costs = dict.fromkeys(["w1", "</s>"], 0.5) | {"w2": math.inf}
    large = language_model(["w1", "w2"], {(): (costs, 0.0)})
    graph = Graph.from_arcs([(0, 1, 1, 2, 0.5), (0, 1, 2, 1, 0.5)], num_states=2, num_columns=2, finals={1: 0.0})
    graph = over(graph, small)
    decoder = CtcDecoder(graph, device="cpu", lattice_beam=8.0)
    both, one = decoder.decode(
        [np.log([[0.6, 0.4]]).astype(np.float32), np.array([[0, -99]], np.float32)], lattice=True
    )
    assert (both.text, both.lattice.rescore(large, small).text) == ("w2", "w1")
    with pytest.raises(ValueError, match="rescore: expected a language_model that allows a path of the lattice"):
        one.lattice.rescore(large, small)


def test_nbest_is_that_of_the_decoder(plain):
    for one in plain:
        found = one.lattice.nbest(30)
        assert [a.to_dict() for a in found] == [a.to_dict() for a in one.nbest]
        assert (found.is_all, found.truncated) == (one.nbest.is_all, one.nbest.truncated)
        assert [a.text for a in one.lattice.nbest(1)] == [one.text] == [one.lattice.text]
    few = plain[0].lattice.prune(0.0).nbest(5)
    assert few.is_all and len(few) < 5
    for n, error in ((0, ValueError), (-1, ValueError), (1.5, TypeError), (None, TypeError), (True, TypeError)):
        with pytest.raises(error, match="n: expected a whole number of at least 1, got"):
            plain[0].lattice.nbest(n)


def test_the_text_of_a_lattice_without_words_is_empty():
    assert random_lattice(0).text == " ".join(a.text for a in random_lattice(0).nbest(1))
    symbols = SymbolTable.from_list(["<eps>", "one"])
    graph = Graph(
        **Graph.from_arcs([(0, 1, 1, 0, 0.5)], num_states=2, num_columns=1, finals={1: 0.0}).fields()
        | {"word_symbols": symbols}
    )
    [one] = CtcDecoder(graph, device="cpu").decode([np.zeros((1, 1), np.float32)], lattice=True)
    assert one.lattice.text == ""
