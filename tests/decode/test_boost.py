"""Boosts of the CPU engine: against the oracle of law 9, against outright composition, and the invariances."""

import itertools
import math
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import Boost, BoostingTree, CtcDecoder, FormatError, Graph, GraphError, SymbolTable, UnsupportedError
from tests.decode import graphs
from tests.decode.boost_oracle import Boosts
from tests.decode.equality import same
from tests.decode.lattices import lattices, packed
from tests.decode.test_rescoring import WORDS, composed
from tests.hypothesis_examples import examples

slow = settings(deadline=None, max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow])
SCORES = st.integers(-4096, 4096).map(lambda units: units / 1024)
PHRASES = st.dictionaries(
    st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=4).map(tuple), SCORES, min_size=1, max_size=6
)
DEPTH_SCALINGS = st.sampled_from([1.0, 1.0, 0.5, 2.0])


def worded(graph):
    """The same graph with words."""
    return Graph(**graph.fields() | {"word_symbols": SymbolTable.from_list(["<eps>", *WORDS])})


def boost_of(graph, phrases, depth_scaling=1.0):
    """The list of phrases of word ids, and what the oracle makes of those that the graph can write."""
    named = {" ".join(WORDS[word - 1] for word in phrase): score for phrase, score in phrases.items()}
    written = set(graph.words.tolist())
    known = {phrase: score for phrase, score in phrases.items() if written.issuperset(phrase)}
    return Boost(named, depth_scaling=depth_scaling), known


pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")


@slow
@given(PHRASES, st.lists(st.sampled_from([1, 2, 3]), max_size=12), DEPTH_SCALINGS)
def test_a_path_gets_the_scores_of_its_phrases(phrases, words, depth_scaling):
    graph = line([words, [1, 2, 3]])
    boost, known = boost_of(graph, phrases, depth_scaling)
    oracle, state, total = Boosts(known, depth_scaling=depth_scaling), (), 0.0
    for word in words:
        cost, state = oracle.step(state, word)
        total += float(cost)
    total += float(oracle.unfinished(((), state)))
    found = sum(
        score
        for end in range(1, len(words) + 1)
        for phrase, score in known.items()
        if tuple(words[:end][-len(phrase) :]) == phrase
    )
    assert -total == found
    (got,) = CtcDecoder(graph, beam=math.inf, max_active=None, device="cpu").decode([said(words)], boost=boost)
    assert got.word_ids.tolist() == words
    assert got.boost_score == found == sum(boosted.score for boosted in got.boosts)


def line(sentences):
    """A graph of sentences, a frame a word: column = word - 1; column 3 ends a sentence."""
    arcs, finals, states = [], {}, 1
    for words in sentences:
        at = 0
        for word in words:
            arcs.append((at, states, word, word, 0.0))
            at, states = states, states + 1
        arcs.append((at, states, 4, 0, 0.0))
        finals[states] = 0.0
        states += 1
    return worded(Graph.from_arcs(arcs, start=0, finals=finals, num_states=states, num_columns=4))


def said(words):
    """Log-probs of a sentence of `line`."""
    logp = np.full((len(words) + 1, 4), -np.inf, np.float32)
    logp[np.arange(len(words) + 1), [*(word - 1 for word in words), 3]] = 0.0
    return logp


@slow
@given(graphs.graphs(max_states=6, max_arcs=15), PHRASES, graphs.log_probs())
def test_unbounded_it_is_the_composition_with_the_phrases(graph, phrases, logp):
    graph = worded(graph)
    boost, known = boost_of(graph, phrases)
    wide = {"beam": math.inf, "max_active": None, "device": "cpu", "threads": 1}
    (got,) = CtcDecoder(graph, **wide).decode([logp], boost=boost)
    whole, _ = composed(graph, Added(Boosts(known)))
    (wanted,) = CtcDecoder(whole, **wide).decode([logp])
    if got.reached_final:  # else the composition gives nothing back
        assert (got.score, got.reached_final) == (wanted.score, wanted.reached_final)
    assert got.partial_score == pytest.approx(got.acoustic_score + got.graph_score + got.boost_score)


class Added:
    """Boosts with each step's addends as one number, which is exact here."""

    def __init__(self, boosts):
        self.boosts, self.start = boosts, boosts.start

    def __call__(self, history, word):
        added, following = self.boosts(history, word)
        return np.float32(sum(added)), following

    def end(self, history):
        return np.float32(sum(self.boosts.end(history)))


@pytest.fixture(scope="module")
def search():
    graph = graphs.random_graph(3, states=400)
    words = [f"w{i}" for i in range(1, 50)]
    graph = Graph(**graph.fields() | {"word_symbols": SymbolTable.from_list(["<eps>", *words])})
    return graph, [graphs.random_log_probs(seed, 40) for seed in range(6)]


def random_boost(seed, count=60):
    rng = np.random.default_rng(seed)
    phrases = {" ".join(f"w{i}" for i in rng.integers(1, 50, rng.integers(1, 4))): 0.0 for _ in range(count)}
    return Boost({phrase: float(rng.normal(2.0, 2.0)) for phrase in phrases})


def test_what_the_graph_cannot_write_changes_nothing(search):
    graph, batch = search
    one = CtcDecoder(graph, beam=6.0, device="cpu", threads=1)
    with pytest.warns(UserWarning, match="2 of 2 phrases are left out.*'absent'"):
        got = one.decode(batch, boost=Boost({"absent": 5.0, "w1 missing": 3.0}))
    same(got, one.decode(batch))
    plain = [packed(lattice) for lattice in lattices(one, batch)]
    for boost in (Boost({"absent": 5.0}), Boost({}), Boost({"w1": 0.0, "w2 w3": 0.0})):
        same(one.decode(batch, boost=boost), one.decode(batch))
    assert [packed(lattice) for lattice in lattices(one, batch, boost=Boost({}))] == plain


def test_utterances_have_boosts_of_their_own(search):
    graph, batch = search
    first, second = random_boost(1), random_boost(2)
    boosts = [first, None, second, first, None, second]
    for threads, order in itertools.product((1, 3), ([0, 1, 2, 3, 4, 5], [5, 2, 0, 1, 4, 3])):
        one = CtcDecoder(graph, beam=6.0, device="cpu", threads=threads)
        got = one.decode([batch[i] for i in order], boost=[boosts[i] for i in order], nbest=3, confidence=True)
        for i, found in zip(order, got, strict=True):
            (alone,) = one.decode([batch[i]], boost=boosts[i], nbest=3, confidence=True)
            same([found], [alone])
            assert [a.text for a in found.nbest] == [a.text for a in alone.nbest]
            assert found.boosts == alone.boosts
    assert any(found.boosts for found in got)
    assert not got[order.index(1)].boosts
    assert got[order.index(1)].boost_score == 0.0


def test_scores_and_their_parts(search):
    graph, batch = search
    boost = random_boost(3)
    one = CtcDecoder(graph, beam=7.0, frame_shift=0.02, device="cpu")
    for got in one.decode(batch, boost=boost, nbest=5, lattice=True):
        assert got.boost_score == sum(boosted.score for boosted in got.boosts)
        assert got.score == pytest.approx(got.acoustic_score + got.graph_score + got.boost_score)
        for boosted in got.boosts:
            said_words = got.words[boosted.first_word : boosted.end_word]
            assert " ".join(word.word for word in said_words) == boosted.phrase
            assert (boosted.start, boosted.end) == (said_words[0].start, said_words[-1].end)
            assert boosted.score == boost.phrases[boosted.phrase]
        for entry in got.nbest:
            assert entry.boost_score == sum(boosted.score for boosted in entry.boosts)
        lattice = got.lattice
        end = lattice.links["target"][lattice.best[-1]]
        assert lattice.boost_scores[lattice.best].sum() + lattice.final_boost_scores[end] == got.boost_score
        total = lattice.scores - lattice.graph_scores - lattice.boost_scores - lattice.acoustic_scores
        np.testing.assert_allclose(total, 0.0, atol=1e-9)
        assert lattice.prune(2.0).boost_scores.tolist() == pruned_boosts(lattice, lattice.prune(2.0))
        assert lattice.to_kaldi() is not None


def pruned_boosts(lattice, pruned):
    """The boosts of the links that are left, found by their frames, arcs and costs."""
    keys = lambda one: list(zip(one.steps[one.links["source"]], one.links["arc"], one.scores, strict=True))  # noqa: E731
    by_key = dict(zip(keys(lattice), lattice.boost_scores.tolist(), strict=True))
    return [by_key[key] for key in keys(pruned)]


def test_the_search_died_or_had_no_frames(search):
    graph, batch = search
    one = CtcDecoder(graph, beam=6.0, device="cpu")
    dead = batch[0].copy()
    dead[20:] = -np.inf
    got = one.decode([dead, batch[1][:0], batch[2]], boost=random_boost(4), nbest=2, lattice=True)
    assert [found.complete for found in got] == [False, True, True]
    for found in got:
        assert found.boost_score == sum(boosted.score for boosted in found.boosts)


def test_pickled_hypotheses_keep_their_boosts(search):
    graph, batch = search
    boost = random_boost(3)
    got = CtcDecoder(graph, beam=7.0, device="cpu").decode(batch, boost=boost, nbest=2)
    for found, kept in zip(got, pickle.loads(pickle.dumps(list(got))), strict=True):
        assert (kept.boosts, kept.boost_score) == (found.boosts, found.boost_score)
        assert [entry.boosts for entry in kept.nbest] == [entry.boosts for entry in found.nbest]
    again = pickle.loads(pickle.dumps(boost))
    assert (again.phrases, again.depth_scaling) == (boost.phrases, boost.depth_scaling)


def test_one_boost_serves_several_graphs():
    first, second = line([[1, 2]]), line([[3, 1]])
    boost = Boost({"a": 2.0, "c a": 1.0})
    assert boost.unknown(first) == {"c a": ["c"]}
    assert boost.unknown(second) == {}
    assert boost.compiled(first) is boost.compiled(first)
    (got,) = CtcDecoder(second, device="cpu").decode([said([3, 1])], boost=boost)
    assert [boosted.phrase for boosted in got.boosts] == ["c a", "a"]


@pytest.mark.parametrize(
    ("phrases", "score", "kind", "message"),
    [
        ("one", None, TypeError, r"got str; for one phrase write \['one'\]"),
        (7, None, TypeError, "expected a mapping of phrases to scores, or a list of phrases, got int"),
        ([1], None, TypeError, "got int for phrase 0"),
        ({"a": 1.0, "  ": 2.0}, None, ValueError, "at least one word, got '  '"),
        ({"a b": 1.0, "a  b": 2.0}, None, ValueError, "'a b' occurs twice"),
        (["a", "b", "a"], 1.0, ValueError, "'a' occurs twice"),
        ({"a": math.nan}, None, ValueError, "score of 'a': expected a natural log from -1000 to 1000, got nan"),
        ({"a": -math.inf}, None, ValueError, "score of 'a'.*got -inf"),
        ({"a": "4"}, None, TypeError, "score of 'a': expected a number"),
        ({"a": True}, None, TypeError, "score of 'a'"),
        ({"a": 1.0}, 2.0, ValueError, "score: expected None"),
        (["a"], 10.0**6, ValueError, "score: expected a natural log from -1000 to 1000"),
        ([], math.nan, ValueError, "score: expected a natural log from -1000 to 1000, got nan"),
        (["a " * 50, "a " * 50], 1.0, ValueError, r"^phrases: '(a ){28}\.\.\. occurs twice$"),
        (["b", "dash\ud800wood"], 1.0, ValueError, r"expected text, got 'dash\\ud800wood', which has half of a surr"),
    ],
)
def test_bad_lists_are_refused(phrases, score, kind, message):
    with pytest.raises(kind, match=message):
        Boost(phrases, score)


def test_bad_depth_scalings_are_refused():
    with pytest.raises(ValueError, match="depth_scaling: expected a number above 0"):
        Boost(["a"], depth_scaling=0.0)


def test_bad_calls_are_refused(search):
    graph, batch = search
    one = CtcDecoder(graph, beam=4.0, device="cpu")
    wanted = one.decode(batch)
    for boost, kind, message in (
        ([random_boost(1)], ValueError, "boost: expected one for each of 6 utterances, got 1"),
        ({"w1": 2.0}, TypeError, "boost: expected an arcbeam.Boost, or a list of them, got dict"),
        ("w1", TypeError, "got str"),
        (BoostingTree([(1,)], vocab_size=2), TypeError, "got BoostingTree; a BoostingTree is for a Transducer"),
        ([None, "w1", None, None, None, None], TypeError, "got str for utterance 1"),
    ):
        with pytest.raises(kind, match=message):
            one.decode(batch, boost=boost)
    same(one.decode(batch), wanted)


def test_graphs_without_words_are_refused():
    plain = Graph.from_arcs([(0, 1, 1, 1, 0.0)], start=0, finals={1: 0.0}, num_states=2, num_columns=2)
    with pytest.raises(GraphError, match="no word symbols"):
        Boost(["a"]).compiled(plain)
    pieces = Graph(**worded(plain).fields() | {"join": "pieces", "separator": "_"})
    with pytest.raises(UnsupportedError, match="writes pieces of words"):
        Boost(["a"]).compiled(pieces)


def test_scores_that_add_up_to_too_much_are_refused():
    graph = line([[1] * 20])
    nested = {" ".join(["a"] * n): 900.0 for n in range(1, 12)}
    with pytest.raises(ValueError, match="boost: the phrases that end with 'a' change a score by 10718"):
        Boost(nested).compiled(graph)
    one = CtcDecoder(graph, device="cpu")
    with pytest.raises(ValueError, match="the phrases of utterance 1 that end with 'a'"):
        one.decode([said([1])] * 2, boost=[None, Boost(nested)])
    assert repr(Boost([])) == "<Boost of 0 phrases>"


def test_reads_files(tmp_path):
    path = tmp_path / "boost.txt"
    path.write_text("a  b\t2.5\n\nc\n")
    assert Boost.read(path, 3.0).phrases == {"a b": 2.5, "c": 3.0}
    for text, message in (
        ("a\nb\tx\n", "line 2: expected a score after the tab, such as 3.5, got 'x'"),
        ("a\t5,0\n", r"line 1: expected a score .*, got '5,0' \(a point before its decimals, no comma\)"),
        ("a\n a\n", "line 2: phrase 'a' occurs twice"),
        ("\t3\n", "line 1: phrases: expected phrases with at least one word"),
        ("a\tnan\n", "line 1: score of 'a'"),
    ):
        path.write_text(text)
        with pytest.raises(FormatError, match=message):
            Boost.read(path)
    with pytest.raises(ValueError, match=r"^score: expected a natural log from -1000 to 1000, got nan"):
        Boost.read(path, float("nan"))


def test_a_lexicon_in_place_of_phrases(tmp_path):
    path = tmp_path / "boost.txt"
    for text in ("ferrars f e r r a r s\nnorland n o r l a n d\n", "ferrars \u2581fer rars\nab \u2581a b\n"):
        path.write_text(text, encoding="utf-8")
        with pytest.warns(UserWarning, match=r"boost.txt: expected phrases, .* 'ferrars .* is it a lexicon\?"):
            assert len(Boost.read(path, 3.0)) == 2
    with warnings.catch_warnings(action="error"):
        path.write_text("new york\nnew new york\nferrars f e r r a r s\nthe a b c\n")
        Boost.read(path)


def test_spellings_of_no_word_of_the_list(tmp_path):
    for spellings in ({"Ferrars": "f e"}, {"Ferrars": "f e", "ab": "a b"}):
        with pytest.warns(UserWarning, match=r"pronunciations: spells 'Ferrars', and the list has 'ferrars': a spell"):
            Boost({"miss ferrars ab": 8.0}, pronunciations=spellings)
    with pytest.warns(UserWarning, match=r"^pronunciations: spells 'norland', and the list has none of these words$"):
        Boost(["ferrars"], pronunciations={"norland": "n o"})
    path = tmp_path / "lexicon.txt"
    path.write_text("FERRARS f e\nnorland n o\n")
    with pytest.warns(UserWarning, match=r"lexicon.txt: pronunciations: spells 'FERRARS', and the list has 'ferrars'"):
        Boost(["ferrars"], pronunciations=path)
    with warnings.catch_warnings(action="error"):
        Boost(["dashwood"], pronunciations=path)  # a lexicon of many lists
        Boost(["ferrars norland"], pronunciations={"ferrars": "f e"})
        Boost(["Ferrars ferrars"], pronunciations={"Ferrars": "f e", "ferrars": "f e"})
        Boost([], pronunciations={"ferrars": "f e"})


def test_large_lists():
    """10,000 phrases, and a million."""
    words = [f"w{i}" for i in range(2000)]
    arcs = [(0, 0, 1, i + 1, 0.0) for i in range(len(words))]
    graph = Graph.from_arcs(arcs, start=0, finals={0: 0.0}, num_states=1, num_columns=1)
    graph = Graph(**graph.fields() | {"word_symbols": SymbolTable.from_list(["<eps>", *words])})
    for count in (10_000, 1_000_000):
        pairs = itertools.islice(itertools.product(words, words), count)
        boost = Boost([f"{a} {b}" for a, b in pairs], 1.0)
        made = boost.compiled(graph)
        assert made.is_known.all()
        assert len(made.states) == 1 + math.ceil(count / len(words))
