"""New words of the CPU engine: against the oracle of law 9, against graphs that have the words, and the invariances."""

import math
import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import Boost, CtcDecoder, FormatError, Graph, SymbolTable, TokenTable
from arcbeam.graph._new_words import Pieces
from arcbeam.graph.graph import OpenSlot
from arcbeam.graph.new_words import Joined
from tests.decode import graphs, rescoring_oracle
from tests.decode.boost_oracle import Boosts, WithNewWords
from tests.decode.equality import as_the_oracle, same
from tests.decode.oracle import EPSILON
from tests.decode.test_boost import SCORES
from tests.decode.test_rescoring import WORDS
from tests.hypothesis_examples import examples

slow = settings(deadline=None, max_examples=examples(300), suppress_health_check=[HealthCheck.too_slow])
TOKENS = ["x", "y", "z", "<blank>"]
NEW = ["x", "xy", "xx", "zy", "zzy", "y"]  # spelled in characters
TOPOLOGIES = st.sampled_from(
    [{}, {"topology": "normal"}, {"token_self_loops": 0}, {"topology": "normal", "token_self_loops": 0}]
)


@st.composite
def open_graphs(draw, **options):
    """A random graph with words, tokens, and a slot of one entrance or several."""
    graph, meta = draw(graphs.graphs(blank=3, **options)), draw(TOPOLOGIES)
    state = st.integers(0, graph.num_states - 1)
    few = st.sampled_from([0.0, 0.5, 1.0])
    slots = draw(st.lists(st.tuples(state, few, state), min_size=1, max_size=3))
    return with_slot(graph, sorted(slots, key=lambda slot: slot[0]), meta)


def with_slot(graph, slots, meta=None, words=WORDS):
    entrances, weights, exits = zip(*slots, strict=True)
    slot = OpenSlot(np.array(entrances, "<u4"), np.array(weights, "<f4"), np.array(exits, "<u4"))
    return Graph.from_arcs(
        arcs_of(graph),
        start=graph.start,
        finals=graph.finals,
        num_states=graph.num_states,
        tokens=TokenTable.from_list(TOKENS),
        word_symbols=SymbolTable.from_list(["<eps>", *words]),
        meta=meta or {},
        open_slot=slot,
    )


def arcs_of(graph):
    """The arcs of a graph as `Graph.from_arcs` takes them."""
    counts = np.diff(graph.states["first_arc"].astype(np.int64))
    sources = np.repeat(np.arange(graph.num_states), counts)
    labels = np.where(graph.columns == EPSILON, 0, graph.columns.astype(np.int64) + 1)
    return sources, graph.targets["next_state"], labels, graph.words, graph.targets["weight"]


PHRASES = st.dictionaries(
    st.lists(st.sampled_from([*WORDS, *NEW]), min_size=1, max_size=3).map(tuple), SCORES, min_size=1, max_size=5
)


def boost_of(graph, phrases, depth_scaling=1.0):
    """The boost of phrases of words, the phrases that the oracle gets, and the graph with the new words."""
    written = {WORDS[word - 1] for word in graph.words.tolist() if word}
    new = {word for phrase in phrases for word in phrase} - written
    # Words of WORDS that no arc writes are new words, too; they are spelled by hand.
    given = {word: ["x z", "z"] for word in new & set(WORDS)}
    spelled = {word: [tuple(map(TOKENS.index, one.split())) for one in given[word]] for word in given}
    spelled |= {word: [tuple(map(TOKENS.index, word))] for word in new - set(WORDS)}
    boost = Boost(
        {" ".join(phrase): score for phrase, score in phrases.items()},
        depth_scaling=depth_scaling,
        pronunciations=given,
    )
    loops = bool(graph.meta.get("token_self_loops", 1))
    whole = WithNewWords(graph, spelled, loops, graph.meta.get("topology") == "normal") if new else graph
    ids = {word: WORDS.index(word) + 1 for word in written}
    first = max(len(WORDS), *graph.words.tolist(), 0) + 1
    ids |= {word: first + at for at, word in enumerate(sorted(new))}
    return boost, {tuple(ids[word] for word in phrase): score for phrase, score in phrases.items()}, whole


def written_out(whole):
    """A graph with new words as a graph like any other; numbers of arcs are others."""
    graph = whole.graph
    columns = [list(column) for column in arcs_of(graph)]
    for source, column, target, weight, word in whole.added:
        for values, value in zip(
            columns, (source, target, 0 if column == EPSILON else column + 1, word, weight), strict=True
        ):
            values.append(value)
    symbols = dict(graph.word_symbols.items()) | {
        word: f"new{word}" for word in set(whole.words.tolist()) - set(graph.word_symbols.arrays()[0].tolist())
    }
    return Graph.from_arcs(
        tuple(np.array(values) for values in columns),
        start=graph.start,
        finals=whole.finals,
        num_states=len(whole.finals),
        tokens=graph.tokens,
        word_symbols=SymbolTable.from_ids(symbols, symbols.values()),
    )


@slow
@given(open_graphs(), PHRASES, graphs.log_probs())
def test_unbounded_it_is_the_graph_that_has_the_words(graph, phrases, logp):
    boost, _, whole = boost_of(graph, dict.fromkeys(phrases, 0.0))
    wide = {"beam": math.inf, "max_active": None, "device": "cpu", "threads": 1}
    (got,) = CtcDecoder(graph, **wide).decode([logp], boost=boost)
    (wanted,) = CtcDecoder(graph if whole is graph else written_out(whole), **wide).decode([logp])
    assert (got.score, got.reached_final, got.complete) == (wanted.score, wanted.reached_final, wanted.complete)
    assert got.graph_score + got.acoustic_score == pytest.approx(got.partial_score)


def test_the_oracle_meets_new_words():
    """The random graphs above reach their slots: of fixed seeds, some hundred hypotheses have a new word."""
    rng, found = np.random.default_rng(5), 0
    for seed in range(200):
        graph, logp = small_graph(seed), graphs.random_log_probs(seed, 8, columns=4, sharpness=2.0)
        phrases = {(NEW[at],): 6.0 for at in rng.integers(0, len(NEW), 3)}
        boost, known, whole = boost_of(graph, phrases)
        (got,) = CtcDecoder(graph, beam=20.0, device="cpu", threads=1).decode([logp], boost=boost)
        as_the_oracle(got, rescoring_oracle.decode(whole, Boosts(known), logp, beam=20.0))
        found += any(word.word in NEW for word in got.words)
    assert found > 100


def small_graph(seed, more=0, **meta):
    """A loop of three words with a slot, weights from a seed, and so many arcs more."""
    weights = np.random.default_rng(seed).gamma(1.0, 1.0, 8).astype(np.float32)
    arcs = [
        (0, 1, 1, 1, weights[0]), (1, 1, 1, 0, 0.0), (0, 2, 2, 2, weights[1]), (2, 3, 3, 0, weights[2]),
        (0, 3, 3, 3, weights[3]), (3, 3, 3, 0, 0.0), (1, 0, 0, 0, weights[4]), (3, 0, 0, 0, weights[5]),
        (0, 0, 4, 0, 0.0), *[(3, 3, 4, 0, 1.0 + at) for at in range(more)],
    ]  # fmt: skip
    graph = Graph.from_arcs(arcs, start=0, finals={0: 0.0}, num_states=4, num_columns=4, blank=3)
    return with_slot(graph, [(0, float(weights[6]), 0)], meta)


def test_the_order_of_a_list_changes_nothing():
    graph, batch = small_graph(1), [graphs.random_log_probs(seed, 12, columns=4) for seed in range(8)]
    one = CtcDecoder(graph, beam=30.0, device="cpu")
    pairs = [(word, 5.0) for word in NEW]
    got = one.decode(batch, boost=Boost(dict(pairs)), nbest=3, confidence=True)
    other = one.decode(batch, boost=Boost(dict(pairs[::-1])), nbest=3, confidence=True)
    same(got, other)
    assert [hypothesis.nbest[-1].text for hypothesis in got] == [hypothesis.nbest[-1].text for hypothesis in other]
    assert {word.word for hypothesis in got for word in hypothesis.words} & set(NEW)


def test_spellings():
    graph = small_graph(1)
    boost = Boost({"xyzzy": 0.0, "Zed": 0.0, "a": 0.0}, pronunciations={"Zed": ["z x", "z"], "unused": "q"})
    assert boost.unknown(graph) == {}
    assert boost.new_words(graph) == {"Zed": [("z", "x"), ("z",)], "xyzzy": [("x", "y", "z", "z", "y")]}
    assert Boost(["a"]).new_words(graph) == {}
    assert pickle.loads(pickle.dumps(boost)).new_words(graph) == boost.new_words(graph)
    (got,) = CtcDecoder(graph, device="cpu", frame_shift=0.04).decode([said("-zz-x-", 0.999)], boost=boost)
    assert [(w.word, w.start_frame, w.end_frame) for w in got.words] == [("Zed", 1, 5)]
    assert got.boosts[0][:2] == ("Zed", 0.0)


def said(frames, sharpness=0.9):
    """Log-probs of columns x, y, z and - for the blank."""
    logp = np.full((len(frames), 4), (1.0 - sharpness) / 3, np.float32)
    logp[np.arange(len(frames)), ["xyz-".index(frame) for frame in frames]] = sharpness
    return np.log(logp)


NORMAL, NO_LOOPS = {"topology": "normal"}, {"token_self_loops": 0}
SAID = [
    ({}, "zz", ["zz", "z-z", "zzz--z"], ["z", "-"]),
    (NORMAL, "zz", ["z-z", "zz-zz", "-z--z-"], ["z", "zz", "zzz"]),
    (NORMAL, "z", ["z", "zz", "-zz-"], ["z-z"]),
    (NORMAL, "zyz", ["zyz", "zzyyz", "z-yz"], ["zz"]),
    (NO_LOOPS, "zz", ["zz", "z-z"], ["z", "zzz"]),
    (NORMAL | NO_LOOPS, "zz", ["z-z", "z--z"], ["zz", "zz-z"]),
    ({"topology": "identity"}, "zx", ["zx", "-z-x"], ["zzx"]),
]


@pytest.mark.parametrize(("meta", "word", "good", "bad"), SAID)
def test_words_are_said_as_the_topology_has_it(meta, word, good, bad):
    arcs = [(0, 0, 4, 0, 0.0), (1, 1, 4, 0, 0.0)]
    graph = Graph.from_arcs(arcs, finals={1: 0.0}, num_states=2, num_columns=4, blank=3)
    graph = with_slot(graph, [(0, 2.0, 1)], meta)
    with np.errstate(divide="ignore"):
        found = CtcDecoder(graph, device="cpu").decode(
            [said(frames, 1.0) for frames in good + bad], boost=Boost([word])
        )
    assert [hypothesis.reached_final for hypothesis in found] == [True] * len(good) + [False] * len(bad)
    assert {hypothesis.text for hypothesis in found[: len(good)]} == {word}
    assert {hypothesis.graph_score for hypothesis in found[: len(good)]} == {-2.0}


def test_pieces_are_cut_in_several_ways():
    tokens = ["<unk>", "\u2581a", "\u2581", "b", "ab", "a", "bb", "<blank>"]
    graph = Graph.from_arcs(
        [(0, 0, 8, 0, 0.0)],
        finals={0: 0.0},
        tokens=TokenTable.from_list(tokens),
        word_symbols=SymbolTable.from_list(["<eps>"]),
        separator="\u2581",
        open_slot=OpenSlot(np.zeros(1, "<u4"), np.zeros(1, "<f4"), np.zeros(1, "<u4")),
    )
    wanted = [("\u2581a", "bb"), ("\u2581a", "b", "b"), ("\u2581", "ab", "b"), ("\u2581", "a", "bb")]
    assert Boost(["abb"]).new_words(graph) == {"abb": [*wanted, ("\u2581", "a", "b", "b")]}
    assert Boost(["abb"], segmentations=4).new_words(graph) == {"abb": wanted}
    assert Boost(["abb"], pronunciations={"abb": "\u2581a b b"}).new_words(graph) == {"abb": [wanted[1]]}


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"word": ["x", ""]}, ValueError, "expected at least one token in each spelling of 'word', got none"),
        ({"word": []}, ValueError, "at least one token in each spelling of 'word'"),
        ({"two words": "x"}, ValueError, "words without spaces, got 'two words'"),
        ({"word": 3}, TypeError, "a str of tokens with spaces between them for 'word', or a list of such, got 3"),
        (["word"], TypeError, "expected a mapping of words to spellings, or a path, got list"),
    ],
)
def test_bad_pronunciations_are_refused(given, kind, message):
    with pytest.raises(kind, match=message):
        Boost(["word"], pronunciations=given)


@pytest.mark.parametrize(
    ("word", "given", "message"),
    [
        ("xQ", None, "'xQ': no token for 'Q'"),
        ("xY", None, "'xY': no token for 'Y', but one for 'y'"),
        ("word", {"word": "x q"}, "'word': its spelling has 'q', which is no token"),
        ("word", {"word": "x <blank>"}, "'word': its spelling has the blank"),
        ("x" * 1001, None, f"'{'x' * 56}...: it has 1,001 characters, more than 1,000"),
    ],
)
def test_words_that_cannot_be_spelled_are_left_out(word, given, message):
    """Their phrases change nothing, and the other words of these phrases are no new words either."""
    graph, batch = small_graph(1), [said("xz-y-"), said("zz-x")]
    one, kept = CtcDecoder(graph, device="cpu"), {"a": 2.0, "zz": 3.0}
    boost = Boost(kept | {f"yx {word} zz": 9.0}, pronunciations=given)
    with pytest.warns(UserWarning, match="1 of 3 phrases is left out.*pronunciations=.*such as 'x y z'") as told:
        found = one.decode(batch, boost=boost)
    assert f"the graph cannot write 1 word ({message}); " in str(told[0].message)
    same(found, one.decode(batch, boost=Boost(kept)))
    assert boost.unknown(graph) == {f"yx {word} zz": [word]}
    assert boost.new_words(graph) == {"zz": [("z", "z")]}


def test_a_graph_that_does_not_know_its_tokens_has_no_new_words():
    graph = Graph(**small_graph(1).fields() | {"tokens": None})
    with pytest.warns(UserWarning, match="'zz': the graph has no tokens; give tokens= to Graph.load"):
        assert Boost(["zz"]).unknown(graph) == {"zz": ["zz"]}


def ways_of(text, pieces, most):
    spelled, stuck = Pieces(pieces).spelled([text], most, 2**30)
    assert bool(stuck) == (not spelled.of(0))
    return spelled.of(0)


def test_long_words_take_little_memory():
    """Ways to cut a word share what they have in common; those of a word of 1,000 letters had 4 million columns."""
    graph = small_graph(1)
    pieces = {"x" * n: n for n in range(1, 20)}
    ways = ways_of("x" * 1000, pieces, 64)
    assert [len(way) for way in ways] == [53] * 64
    assert ways == sorted(ways) and len(set(ways)) == 64
    assert Boost(["x" * 1000]).new_words(graph) == {"x" * 1000: [("x",) * 1000]}
    with pytest.raises(ValueError, match="segmentations: expected a whole number of at most 64"):
        Boost(["x"], segmentations=65)


@pytest.mark.parametrize("seed", range(20))
def test_the_ways_to_cut_a_word_are_those_of_the_fewest_pieces(seed):
    rng = np.random.default_rng(seed)
    names = {"".join(rng.choice(list("ab"), rng.integers(1, 4))) for _ in range(6)} | {"b"}
    pieces = dict(zip(sorted(names), rng.permutation(len(names)).tolist(), strict=True))
    text = "".join(rng.choice(list("ab"), 7))

    def ways(rest):
        begun = [piece for piece in pieces if rest.startswith(piece)]
        return [(pieces[one], *way) for one in begun for way in ways(rest.removeprefix(one))] if rest else [()]

    wanted = sorted(ways(text), key=lambda way: (len(way), way))[:5]
    assert ways_of(text, pieces, 5) == wanted


def test_files_of_pronunciations(tmp_path):
    path = tmp_path / "names.txt"
    path.write_text("Zed z x\n\nZed z\n")
    assert Boost(["Zed"], pronunciations=path).new_words(small_graph(1)) == {"Zed": [("z", "x"), ("z",)]}
    (tmp_path / "list.txt").write_text("Zed\t5\n")
    read = Boost.read(tmp_path / "list.txt", pronunciations=path)
    assert read.new_words(small_graph(1)) == {"Zed": [("z", "x"), ("z",)]}
    path.write_text("Zed z x\nword\n")
    with pytest.raises(FormatError, match="line 2: expected tokens after the word 'word', got none"):
        Boost(["Zed"], pronunciations=path)


def test_without_a_slot_they_are_left_out():
    graph = Graph(**small_graph(1).fields() | {"open_slot": None})
    with pytest.warns(UserWarning, match=r"1 of 1 phrase is left out.* 1 word \('zz'\); .*open_slot=True"):
        (got,) = CtcDecoder(graph, device="cpu").decode([said("zz")], boost=Boost(["zz"]))
    assert "zz" not in got.text.split()


def test_one_boost_serves_graphs_with_a_slot_and_without():
    graph = small_graph(1)
    plain, boost = Graph(**graph.fields() | {"open_slot": None}), Boost({"zz": 9.0, "a": 1.0})
    assert boost.new_words(graph) == {"zz": [("z", "z")]}
    with pytest.warns(UserWarning, match="left out"):
        assert boost.new_words(plain) == {}
    assert boost.compiled(graph).new_words is not None
    assert boost.compiled(plain).new_words is None


def test_arcs_of_a_graph_that_has_none():
    joined = Joined(np.zeros(0, np.uint16), np.array([7, 8, 9], np.uint16))
    assert joined[np.array([2, 0], np.uint32)].tolist() == [9, 7]
    joined = Joined(np.array([5], np.uint16), np.array([7, 8], np.uint16))
    assert joined[np.array([1, 0, 2], np.uint32)].tolist() == [7, 5, 8]
