"""The arrays of a lattice: against whole paths, through pickles, and as OpenFst."""

import copy
import pickle

import numpy as np
import pytest

from arcbeam import CtcDecoder, Graph, KenLM, LanguageModel
from arcbeam.ctc.cpu._decode import graph_cost, rescoring_cost
from arcbeam.ctc.options import DecoderOptions
from arcbeam.ctc.rescoring import Rescoring
from tests.decode import kenlm_files
from tests.decode.language_models import random_model
from tests.decode.rescoring_oracle import Deviations
from tests.lattice_files import random_lattices
from tests.lattice_files.random_lattices import nothing, paths, random_lattice

SEEDS = range(12)
ARRAYS = (
    "links", "states", "steps", "times", "columns", "words", "scores", "acoustic_scores", "graph_scores",
    "rescoring_scores", "final_scores", "final_graph_scores", "final_rescoring_scores", "best",
)  # fmt: skip


def cost_of(lattice, path):
    """The cost of a path of links and its last token's end, by part."""
    end = lattice.links["target"][path[-1]]
    parts = [(lattice.scores, lattice.final_scores), (lattice.graph_scores, lattice.final_graph_scores)]
    parts.append((lattice.rescoring_scores, lattice.final_rescoring_scores))
    return [-sum(scores[path].tolist(), 0.0) - float(ends[end]) for scores, ends in parts]


@pytest.mark.parametrize("seed", SEEDS)
def test_best_path(seed):
    lattice = random_lattice(seed)
    total, graph, rescored = cost_of(lattice, lattice.best)
    arcs = lattice.links["arc"][lattice.best].astype(np.uint32)
    assert total == lattice.total_cost == paths(lattice)[0][0]  # costs are multiples of 1/64, so sums are exact
    assert graph == graph_cost(lattice._batch.graph, arcs, lattice.reached_final)
    assert rescored == 0.0


@pytest.mark.parametrize("seed", SEEDS)
def test_sizes_and_parts(seed):
    lattice = random_lattice(seed)
    assert lattice.num_frames == 7 == lattice.steps[-1]
    assert repr(lattice) == f"<Lattice of {lattice.num_links:,} links, {lattice.num_tokens:,} tokens, 7 frames>"
    moved = lattice.steps[lattice.links["target"]] - lattice.steps[lattice.links["source"]]
    assert np.array_equal(moved == 1, lattice.columns != 0xFFFF)
    assert np.array_equal(lattice.times, lattice.steps * 0.04)
    whole = lattice.acoustic_scores + lattice.graph_scores + lattice.rescoring_scores
    assert np.array_equal(whole, lattice.scores)
    assert np.array_equal(lattice.acoustic_scores[moved == 0], np.zeros((moved == 0).sum()))
    assert set(lattice.word_symbols) == set(lattice.words.tolist()) - {0}


def test_arrays_are_read_only():
    lattice = random_lattice(0)
    for name in ARRAYS:
        with pytest.raises(ValueError, match="read-only"):
            getattr(lattice, name)[:] = 0


@pytest.mark.parametrize("seed", range(1, 7))
def test_rescored(seed):
    """A link's deviation is what the models say of its words, one path after another."""
    rng = np.random.default_rng(seed)
    words = ["one", "two", "three"]
    check_deviations(rng, words, random_model(rng, words, 3), random_model(rng, words, 2))


@pytest.mark.filterwarnings("ignore:.*probabilities do not sum to 1")
@pytest.mark.parametrize("seed", range(1, 4))
def test_rescored_with_kenlm(tmp_path, seed):
    kenlm_files.need_kenlm()
    words = ["one", "two", "three"]
    arpa = kenlm_files.random_ngrams(words, 3, seed).write(tmp_path / "large.arpa")
    rng = np.random.default_rng(seed)
    large = LanguageModel.build(arpa, progress=False)  # made the lattice, with the same histories
    check_deviations(rng, words, large, random_model(rng, words, 2), KenLM(arpa))


def check_deviations(rng, words, large, small, requested=None):
    graph = random_lattices.random_graph(rng, words)
    graph.meta["lm_digest"] = small.digest
    deviations = Deviations(graph, large, small, 0.5, 0.5)
    arrays = random_lattices.search(graph, random_lattices.log_probs(rng, 6), 5.0, deviations)
    rescoring = Rescoring(graph, requested or large, small, DecoderOptions(lm_scale=0.5, graph_lm_scale=0.5))
    lattice = random_lattices.lattice_of(graph, arrays, rescoring=rescoring)
    assert lattice.rescoring_scores.any()
    leaving = [np.flatnonzero(lattice.links["source"] == token) for token in range(lattice.num_tokens)]
    pending, seen = [[int(i)] for i in leaving[0]], 0
    while pending and seen < 300:
        path = pending.pop()
        end = lattice.links["target"][path[-1]]
        if np.isfinite(lattice.final_scores[end]):
            seen += 1
            arcs = lattice.links["arc"][path].astype(np.uint32)
            _, of_graph, rescored = cost_of(lattice, path)
            assert rescored == rescoring_cost(graph, rescoring, arcs, lattice.reached_final)
            assert of_graph == graph_cost(graph, arcs, lattice.reached_final)
        pending += [[*path, int(i)] for i in leaving[end]]
    assert seen


def test_without_a_frame_shift_there_are_no_times():
    assert random_lattice(1, frame_shift=None).times is None


def test_pickles_have_the_arrays_and_not_the_graph():
    data = pickle.dumps(random_lattice(2))
    assert b"arcbeam.graph" not in data
    assert not {"_batch", "_index", "_found"} & set(vars(pickle.loads(data)))


def test_a_copy_has_the_graph():
    lattice = of_search("whole")
    again = copy.copy(lattice)
    assert again is not lattice and again._batch is lattice._batch
    assert [one.words for one in again.nbest(2)] == [one.words for one in lattice.nbest(2)]
    pickled = pickle.loads(pickle.dumps(lattice))
    assert copy.copy(pickled).prune(2.0).to_dot() == lattice.prune(2.0).to_dot()


def of_search(name):
    """Lattices of the decoder itself, whose graph names its words."""
    graph = random_lattices.random_graph(np.random.default_rng(9), ["one", "two", "three", "über", "five"])
    rng = np.random.default_rng(6)
    logp = random_lattices.log_probs(rng, {"one frame": 1, "no frame": 0}.get(name, 9))
    logp -= np.log(np.exp(logp).sum(axis=1, keepdims=True))
    if name == "dead":
        logp[5:] = -np.inf
    if name == "no words":
        fields = graph.fields()
        graph = Graph(**fields | {"columns": fields["columns"] | {"words": np.zeros_like(graph.words)}})
    [found] = CtcDecoder(graph, device="cpu", lattice_beam=20.0, frame_shift=0.02, posterior_scale=0.5).decode(
        [logp], lattice=True
    )
    return found.lattice


LATTICES = {
    **{f"random {seed}": lambda seed=seed: random_lattice(seed) for seed in range(4)},
    **{name: lambda name=name: of_search(name) for name in ("whole", "dead", "one frame", "no frame", "no words")},
    "empty": lambda: nothing(random_lattice(0)._batch.graph),
    "without symbols": lambda: random_lattices.random_lattice(2, frame_shift=None),
}


@pytest.mark.parametrize("name", LATTICES)
def test_pickles_answer_as_the_lattice_does(name):
    lattice = LATTICES[name]()
    again = pickle.loads(pickle.dumps(lattice))
    twice = pickle.loads(pickle.dumps(again))
    for beam in (np.inf, 2.0, 0.0):
        wanted = lattice.prune(beam)
        for one in (again, twice, pickle.loads(pickle.dumps(again.prune(beam)))):
            found = one.prune(beam)
            for array in ARRAYS:
                values, same = getattr(found, array), getattr(wanted, array)
                assert (values is None and same is None) or values.tobytes() == same.tobytes(), array
            assert repr(found) == repr(wanted) and found.to_kaldi() == wanted.to_kaldi()
            assert found.to_dot() == wanted.to_dot()
            assert (found.word_symbols, found.label_symbols) == (wanted.word_symbols, wanted.label_symbols)
            assert found.posteriors.tobytes() == wanted.posteriors.tobytes()
            assert (found.mbr, found.sausage) == (wanted.mbr, wanted.sausage)
            assert not any(value.flags.writeable for value in (found.words, found.links, found.posteriors))
            for reference in ("", "one two zebra", ["über"]):
                assert repr(found.oracle_wer(reference)) == repr(wanted.oracle_wer(reference))
    with pytest.raises(ValueError, match="beam: expected a number of at least 0"):
        again.prune(-1.0)


def test_oracle_errors_need_names():
    lattice = random_lattice(2)
    fields = lattice._batch.graph.fields() | {"word_symbols": None}
    nameless = random_lattices.lattice_of(Graph(**fields), lattice._arrays)
    for one in (nameless, pickle.loads(pickle.dumps(nameless))):
        with pytest.raises(ValueError, match="oracle_wer: expected a graph with symbols of words"):
            one.oracle_wer("one")


@pytest.mark.parametrize("seed", SEEDS)
def test_openfst(seed):
    kaldifst = pytest.importorskip("kaldifst", reason="makes the object: .[build]")
    lattice = random_lattice(seed)
    for one in (lattice, pickle.loads(pickle.dumps(lattice))):
        fst = one.to_openfst()
        assert isinstance(fst, kaldifst.StdVectorFst) and fst.num_states == lattice.num_tokens
        words, cost = best_words(kaldifst, kaldifst.shortest_path(fst))
        assert cost == lattice.total_cost
        assert (cost, tuple(words)) in {path[:2] for path in paths(lattice)}
        for word, text in one.word_symbols.items():
            assert fst.output_symbols.find(word) == text
        assert fst.input_symbols.find(int(lattice.columns[lattice.best].min()) + 1) in "abc<blank>"


def best_words(kaldifst, fst):
    state, words, cost = fst.start, [], 0.0
    while fst.num_arcs(state):
        (arc,) = kaldifst.ArcIterator(fst, state)
        words += [arc.olabel] * (arc.olabel != 0)
        cost += float(arc.weight.value)
        state = arc.nextstate
    return words, cost + float(fst.final(state).value)


def test_a_written_file_is_a_graph_again(tmp_path):
    """It has the labels of the graph, so arcbeam itself reads it, with its words."""
    lattice = random_lattice(3)
    lattice.write(tmp_path / "lattice.fst")
    graph = Graph.load(tmp_path / "lattice.fst")
    assert (graph.num_states, graph.num_arcs) == (lattice.num_tokens, lattice.num_links)
    assert np.array_equal(np.sort(graph.words), np.sort(lattice.words))
    assert list(graph.word_symbols.items()) == list(lattice._batch.graph.word_symbols.items())
    assert graph.tokens.tokens == lattice._batch.graph.tokens.tokens


def test_an_utterance_without_a_lattice(tmp_path):
    empty = nothing(random_lattice(0)._batch.graph)
    assert (empty.num_links, empty.num_tokens, empty.num_frames, empty.complete) == (0, 0, 0, False)
    for name in ARRAYS:
        if name != "times":
            assert len(getattr(empty, name)) == 0
    assert empty.to_kaldi().num_states == 0
    assert "->" not in empty.to_dot()
    empty.write(tmp_path / "empty.fst")
    assert repr(empty) == "<Lattice of 0 links, 0 tokens, 0 frames, complete=False>"
    assert pickle.loads(pickle.dumps(empty)).num_tokens == 0


@pytest.mark.parametrize("name", ["a.ark", "a.TXT", "a.scp", "a.fst.gz"])
def test_names_of_files_of_other_kinds(tmp_path, name):
    with pytest.raises(ValueError, match=f"expected a name such as lattice.fst, .*got .*{name}; .*write_lattices"):
        random_lattice(0).write(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_prune_and_oracle():
    pytest.importorskip("arcbeam.ctc.lattice._lattice", reason="the lattice's C++ is not built")
    lattice = random_lattice(4)
    best, words, _ = paths(lattice)[0]
    pruned = lattice.prune(2.0)
    assert pruned.num_links <= lattice.num_links
    assert paths(pruned)[0][0] == best == pruned.total_cost
    assert {path for path in paths(lattice) if path[0] <= best + 2.0} <= set(paths(pruned))
    for cost, _, _ in paths(lattice.prune(0.0)):
        assert cost == best
    texts = [lattice.word_symbols[word] for word in words]
    assert lattice.oracle_wer(texts)[:2] == (0, texts)
    assert lattice.oracle_wer(" ".join([*texts, "zebra"])).errors == 1
    with pytest.warns(
        UserWarning, match=f"reference: expected words in the case of the lattice's, got '{texts[0].upper()}'"
    ):
        assert lattice.oracle_wer([text.upper() for text in texts]).errors == len(texts)
    for reference in ([1, 2], [*texts, None], None, 3):
        with pytest.raises(TypeError, match="reference: expected a str or a list of words, got"):
            lattice.oracle_wer(reference)


def test_a_prune_that_prunes_nothing():
    lattice = random_lattice(4).prune(2.0)
    with pytest.warns(UserWarning, match="beam: expected at most 2, the lattice_beam of this lattice, got 3"):
        assert lattice.prune(3.0).num_links == lattice.num_links
