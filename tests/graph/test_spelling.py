"""A graph from elsewhere gets its words' spellings from a lexicon, and says what its word times mean."""

import gzip
import pickle
import warnings

import numpy as np
import pytest

from arcbeam import CtcDecoder, FormatError, Graph, TokenTable
from arcbeam.graph.openfst import write_vector
from arcbeam.graph.pronunciations import Pronunciations
from arcbeam.recipe.lexicon import Lexicon

TOKENS = ["<space>", "a", "b", "<blank>"]
WORDS = ["<eps>", "ab", "b", "never"]
SPACE, A, B, BLANK = range(4)
# "ab" is written by its last token, "b" by its only one; spaces and blanks may stand between.
ARCS = [
    (0, 0, BLANK + 1, 0, 0.0), (0, 0, SPACE + 1, 0, 0.0),
    (0, 1, A + 1, 0, 0.0), (1, 1, A + 1, 0, 0.0), (1, 1, BLANK + 1, 0, 0.0), (1, 2, B + 1, 1, 0.0),
    (2, 2, B + 1, 0, 0.0), (2, 0, 0, 0, 0.5),
    (0, 3, B + 1, 2, 0.0), (3, 3, B + 1, 0, 0.0), (3, 0, 0, 0, 0.5),
]  # fmt: skip
TABLES = {"words": WORDS, "tokens": TOKENS}
SAID = "-aa-bb__-b-"
WRITTEN = [("ab", 4, 8), ("b", 9, 10)]
SPELLED = [("ab", 1, 6), ("b", 9, 10)]


@pytest.fixture
def fst(tmp_path):
    sources, targets, labels, words, costs = zip(*ARCS, strict=True)
    write_vector(tmp_path / "TLG.fst", 0, sources, targets, labels, words, costs, {0: 0.0})
    return tmp_path / "TLG.fst"


@pytest.fixture
def lexicon(tmp_path):
    """Of a file that knows more words than the graph, and not "never", which no arc writes."""
    (tmp_path / "lexicon.txt").write_text("other a a\nb b\nab a b\n")
    return tmp_path / "lexicon.txt"


def timed(graph):
    logp = np.full((len(SAID), len(TOKENS)), -20.0, np.float32)
    logp[np.arange(len(SAID)), ["_ab-".index(letter) for letter in SAID]] = 0.0
    (found,) = CtcDecoder(graph, device="cpu").decode([logp])
    return [word[:3] for word in found.words]


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_words_have_the_times_of_their_spellings(fst, lexicon, tmp_path):
    assert timed(Graph.load(fst, **TABLES)) == WRITTEN
    graph = Graph.load(fst, lexicon=lexicon, **TABLES)
    assert timed(graph) == SPELLED
    assert (graph.separator, graph.separator_column) == ("<space>", SPACE)
    assert [graph.pronunciations.of(label) for label in (1, 2, 3)] == [[[A, B]], [[B]], []]
    assert timed(pickle.loads(pickle.dumps(graph))) == SPELLED
    graph.save(tmp_path / "TLG.arcbeam")
    assert timed(Graph.load(tmp_path / "TLG.arcbeam")) == SPELLED


def test_a_lexicon_in_memory_or_packed(fst, lexicon, tmp_path):
    table = TokenTable.from_list(TOKENS)
    for given in (Lexicon.from_file(lexicon, table), Lexicon.spell(["ab", "b"], table)):
        assert timed(Graph.load(fst, lexicon=given, **TABLES)) == SPELLED
    (tmp_path / "packed.gz").write_bytes(gzip.compress(lexicon.read_bytes()))
    assert timed(Graph.load(fst, lexicon=tmp_path / "packed.gz", **TABLES)) == SPELLED
    (tmp_path / "packed.gz").write_bytes(gzip.compress(lexicon.read_bytes() + b"\n" * 100_000))
    with pytest.raises(FormatError, match="max_bytes"):
        Graph.load(fst, lexicon=tmp_path / "packed.gz", max_bytes=1000, **TABLES)


def test_separators_at_the_ends_of_spellings_belong_to_no_word(fst, lexicon):
    lexicon.write_text("ab <space> a b <space>\nb b <space> <space>\nnever <space>\n")
    graph = Graph.load(fst, lexicon=lexicon, **TABLES)
    assert timed(graph) == SPELLED
    assert [graph.pronunciations.of(label) for label in (1, 2, 3)] == [[[A, B]], [[B]], []]


def test_a_graph_of_arcbeams_own_without_spellings(fst, lexicon, tmp_path):
    Graph.load(fst, **TABLES).save(tmp_path / "TLG.arcbeam")
    graph = Graph.load(tmp_path / "TLG.arcbeam", lexicon=lexicon)
    assert timed(graph) == timed(pickle.loads(pickle.dumps(graph))) == SPELLED
    graph.save(tmp_path / "spelled.arcbeam")
    with pytest.raises(ValueError, match=r"lexicon: expected a graph without spellings, got one that contains them"):
        Graph.load(tmp_path / "spelled.arcbeam", lexicon=lexicon)


def test_words_that_the_lexicon_lacks(fst, lexicon):
    lexicon.write_text("b b\n")
    with pytest.warns(UserWarning, match=r"lacks 1 of the 2 words that the graph writes \('ab'\), whose times are"):
        graph = Graph.load(fst, lexicon=lexicon, **TABLES)
    assert timed(graph) == WRITTEN
    assert graph.info().unspelled_words == 1
    with pytest.raises(TypeError, match=r"lexicon: expected a path, an .*Lexicon or None, got dict; Lexicon.spell"):
        Graph.load(fst, lexicon={"ab": "a b"}, **TABLES)
    lexicon.write_text("AB a b\nB b\n")
    with pytest.raises(ValueError, match=r"lacks 2 of the 2 words .*'ab', 'b'\); it has them in upper case"):
        Graph.load(fst, lexicon=lexicon, **TABLES)
    lexicon.write_text("c b\n")
    with pytest.raises(ValueError, match=r"lacks 2 of the 2 words .*; is it the lexicon of this graph\?"):
        Graph.load(fst, lexicon=lexicon, **TABLES)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"words": None}, r"lexicon: expected a graph with word symbols, got none; give words"),
        ({"tokens": None}, r"lexicon: expected a graph whose blank is known"),
        ({"tokens": None, "blank": BLANK}, r"lexicon: expected a graph with tokens"),
        ({"join": "pieces"}, r"lexicon: expected a graph that writes words"),
        ({"pronunciations": Pronunciations.from_lists([(1, [A, B])])}, r"got lexicon and pronunciations"),
    ],
)
def test_what_a_lexicon_needs(fst, lexicon, options, message):
    with pytest.raises(ValueError, match=message):
        Graph.load(fst, **{"lexicon": lexicon, **TABLES, **options})


def test_a_lexicon_of_other_tokens(fst, lexicon):
    lexicon.write_text("ab a c\n")
    with pytest.raises(FormatError, match=r"line 1: expected tokens of the model, got 'c'"):
        Graph.load(fst, lexicon=lexicon, **TABLES)
    with pytest.raises(FileNotFoundError):
        Graph.load(fst, lexicon=lexicon.with_name("none"), **TABLES)


def test_info_says_what_word_times_mean(fst, lexicon):
    plain = Graph.load(fst, **TABLES).info()
    assert (plain.word_times, plain.unspelled_words) == ("writing frames", 2)
    assert "of the frames that write words" in str(plain)
    spelled = Graph.load(fst, lexicon=lexicon, **TABLES).info()
    assert (spelled.word_times, spelled.unspelled_words) == ("spellings", 0)
    assert "of the labels that spell a word, to the frame\n" in str(spelled)
    pieces = Graph.load(fst, join="pieces", **TABLES).info()
    assert (pieces.word_times, pieces.unspelled_words) == ("pieces", 0)
