"""Lattices that were written and read, rescored and searched as in the process that decoded them."""

import math
import re
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import arcbeam
from arcbeam import CtcDecoder, GraphError, KenLM, LanguageModel, SymbolTable
from tests.decode import graphs, kenlm_files
from tests.decode.language_models import WORDS, over, random_model, rough_models
from tests.decode.rescoring_oracle import Deviations
from tests.decode.test_rescoring import language_models, with_words
from tests.hypothesis_examples import examples
from tests.lattice_files.compact_paths import all_paths, best_paths, random_compact
from tests.lattice_files.random_lattices import nothing, random_lattice

pytestmark = [
    pytest.mark.filterwarnings("ignore:log_probs. expected:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*probabilities do not sum to 1"),
]
SCALES = [(1.0, 1.0), (0.5, 1.0), (1.0, 0.5), (0.0, 0.0)]


@settings(deadline=None, max_examples=examples(300), suppress_health_check=[HealthCheck.too_slow])
@given(
    graphs.graphs(),
    language_models(),
    graphs.log_probs(max_frames=4),
    st.sampled_from([0.0, 0.5, 2.0, math.inf]),
    st.sampled_from(SCALES),
)
def test_the_costs_of_rescoring_before_writing(graph, models, logp, beam, scales):
    """Weights are multiples of 1/64, so all sums are exact, those in float32, too."""
    large, small = models
    graph = with_words(graph, small, lm_scale=scales[1])
    [plain] = CtcDecoder(graph, beam=4.0, lattice_beam=2.0, device="cpu", threads=1).decode([logp], lattice=True)
    if not plain.lattice.num_tokens or not plain.reached_final or plain.lattice.num_links > 60:
        return
    read = plain.lattice.to_kaldi()
    read.word_symbols = graph.word_symbols
    before = best_paths(read, 1.0)
    raw = plain.lattice.rescore(large, small, lm_scale=scales[0], beam=math.inf).to_kaldi(determinize=False)
    wanted = {words: path for words, path in best_paths(raw, 1.0).items() if words in before}
    found = read.rescore(large, small, lm_scale=scales[0], graph_lm_scale=scales[1], beam=beam)
    got = best_paths(found, 1.0)
    best = min(wanted.values())[0]
    kept = {words: path for words, path in got.items() if path[0] <= best + beam}
    within = {words: path for words, path in wanted.items() if path[0] <= best + beam}
    if plain.lattice.lattice_beam >= max(path[0] for path in before.values()) - min(before.values())[0]:
        assert kept == within
    assert kept.keys() == within.keys() and min(got.values())[0] == best
    assert len(all_paths(found, 1.0)) == len(got)


@pytest.fixture(scope="module")
def models():
    return rough_models(7)


@pytest.fixture(scope="module")
def plain(models):
    graph = over(graphs.random_graph(1), models[1])
    decoder = CtcDecoder(graph, beam=10.0, lattice_beam=6.0, acoustic_scale=0.5, device="cpu", threads=1)
    return decoder.decode([graphs.random_log_probs(seed, 20) for seed in range(6)], lattice=True)


def written(tmp_path, hypotheses, determinize=True):
    """Lattices read from an archive, with words by name."""
    graph = hypotheses[0].lattice._batch.graph
    graph.word_symbols.write(tmp_path / "words.txt")
    arcbeam.write_lattices(
        tmp_path / "a.ark", {f"utt{i}": one.lattice for i, one in enumerate(hypotheses)}, determinize=determinize
    )
    return [one for _, one in arcbeam.read_lattices(tmp_path / "a.ark", words=tmp_path / "words.txt")]


@pytest.mark.parametrize("determinize", [True, False])
def test_the_words_of_rescoring_before_writing(tmp_path, plain, models, determinize):
    """Raw lattices and such that have every word sequence of them; those within a beam may lack the best one."""
    changed = 0
    for one, read in zip(plain, written(tmp_path, plain, determinize=False), strict=True):
        lattice = read.determinize(100.0, 0.5) if determinize else read
        wanted, found = one.lattice.rescore(*models), lattice.rescore(*models, acoustic_scale=0.5, beam=6.0)
        best = found.best_path(0.5)
        assert best.text == wanted.text
        assert [entry.text for entry in found.nbest(20, 0.5)] == [entry.text for entry in wanted.nbest(20)]
        changed += best.text != one.text
    assert changed > 3


@pytest.mark.parametrize("beam", [0.5, math.inf])
def test_what_a_cost_becomes(tmp_path, plain, models, beam):
    """The float32 that was read plus the deviation, rounded once; all else stays."""
    large, small = models
    [read, *_] = written(tmp_path, plain)
    deviations = Deviations(plain[0].lattice._batch.graph, large, small, 1.5, 1.0)
    found = read.rescore(large, small, acoustic_scale=0.5, lm_scale=1.5, beam=beam)
    seen, pending = {(found.start, read.start, deviations.start())}, [(found.start, read.start, deviations.start())]
    arcs = {(source, word): i for i, (source, _, word, _, _) in enumerate(read.arcs.tolist())}
    for state, old, history in pending:
        for i in range(*found.first_arcs[[state, state + 1]]):
            arc, before = found.arcs[i], arcs[old, int(found.arcs["word"][i])]
            added, following = deviations(history, int(arc["word"]))
            assert arc["graph_cost"] == read.arcs["graph_cost"][before] + np.float32(added)
            assert arc["acoustic_cost"] == read.arcs["acoustic_cost"][before]
            strings = [one.labels[slice(*one.label_begins[[k, k + 1]])] for one, k in ((found, i), (read, before))]
            assert strings[0].tolist() == strings[1].tolist()
            step = int(arc["target"]), int(read.arcs["target"][before]), following
            pending += [step] * (step not in seen)
            seen.add(step)
        if np.isfinite(found.finals["graph_cost"][state]):
            end = read.finals["graph_cost"][old] + np.float32(deviations.end(history))
            assert found.finals["graph_cost"][state] == end
            assert found.finals["acoustic_cost"][state] == read.finals["acoustic_cost"][old]
    assert len({state for state, _, _ in seen}) == len(seen) == found.num_states  # a state is one history
    assert found.beam is None and (beam < math.inf or found.num_states >= read.num_states)


@pytest.mark.parametrize("seed", range(40))
def test_the_n_best_of_any_lattice(seed):
    lattice = random_compact(np.random.default_rng(seed), states=9, arcs=20)
    for scale in (1.0, 0.5):
        wanted = sorted(path[0] for path in best_paths(lattice, scale).values())
        found = lattice.nbest(12, scale)
        assert [one.graph_cost + scale * one.acoustic_cost for one in found] == wanted[:12]
        assert len({tuple(one.words.tolist()) for one in found}) == len(found)
        paths = {(words, labels) for words, labels, _, _ in all_paths(lattice, scale)}
        assert {(tuple(one.words.tolist()), tuple(one.labels.tolist())) for one in found} <= paths


def test_kenlm(tmp_path):
    kenlm_files.need_kenlm()
    small = random_model(np.random.default_rng(0), WORDS, 2, share=0.1)
    graph = over(graphs.random_graph(1), small)
    large = kenlm_files.random_ngrams(WORDS, 2, 0).write(tmp_path / "large.arpa")
    decoder = CtcDecoder(graph, beam=10.0, lattice_beam=6.0, device="cpu", threads=1)
    plain = decoder.decode([graphs.random_log_probs(seed, 12) for seed in range(4)], lattice=True)
    for one, read in zip(plain, written(tmp_path, plain), strict=True):
        assert read.rescore(KenLM(large), small).best_path().text == one.lattice.rescore(KenLM(large), small).text


def test_what_is_refused(tmp_path, plain, models):
    large, small = models
    [read, *_] = written(tmp_path, plain)
    for wrong, error, message in [
        ({"beam": -1.0}, ValueError, "beam: expected a number of at least 0"),
        ({"acoustic_scale": -1.0}, ValueError, "acoustic_scale: expected a number of at least 0"),
        ({"unknown_words": "x"}, ValueError, "unknown_words"),
        ({"lattice_beam": 1.0}, TypeError, "unknown option lattice_beam: expected one of language_model"),
    ]:
        with pytest.raises(error, match=message):
            read.rescore(large, small, **wrong)
    fewer = random_model(np.random.default_rng(1), ["w1", "w2"], 2)
    with pytest.raises(GraphError, match="language_model: it lacks"):
        read.rescore(fewer, small)
    with pytest.raises(GraphError, match="graph_language_model: it lacks"):
        read.rescore(large, fewer)
    read.word_symbols = None
    with pytest.raises(ValueError, match=re.escape('type read_lattices(path, words="words.txt")')):
        read.rescore(large, small)
    read.word_symbols = SymbolTable.from_list(["<eps>"])
    with pytest.raises(GraphError, match="which has no symbol among the 1 words"):
        read.rescore(large, small)
    empty = nothing(random_lattice(0)._batch.graph).to_kaldi()
    assert empty.rescore(large, small) == empty and empty.nbest(3) == []
    assert isinstance(small, LanguageModel)


def test_the_scale_of_a_path():
    lattice = random_compact(np.random.default_rng(4))
    graph_alone = min(path[2] for path in all_paths(lattice, 0.0))
    with warnings.catch_warnings(action="error"):
        assert lattice.best_path(acoustic_scale=0).graph_cost == pytest.approx(graph_alone)
    for scale, error in [("1", TypeError), (-1.0, ValueError), (np.nan, ValueError)]:
        with pytest.raises(error, match="acoustic_scale: expected a number of at least 0"):
            lattice.best_path(acoustic_scale=scale)
