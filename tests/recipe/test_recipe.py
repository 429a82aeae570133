"""TLG accepts exactly what T, L and G say: same outputs and costs, proven with kaldifst's composition."""

import itertools
import time

import kaldifst
import numpy as np
import pytest

from arcbeam import Graph
from arcbeam.core.errors import FormatError, MissingDependencyError
from arcbeam.graph.token_table import TokenTable
from arcbeam.recipe.arrays import ArcArrays
from arcbeam.recipe.language_model import read_language_model
from arcbeam.recipe.lexicon import Lexicon
from arcbeam.recipe.lexicon_fst import SEPARATOR_RULES
from arcbeam.recipe.topology import TOPOLOGIES, make_topology
from tests.recipe.definitions import said, strings

TOKENS = TokenTable.from_list(["<space>", "a", "b", "<blank>"])
SPACE, A, B, BLANK = 1, 2, 3, 4
# Quantization in minimization moves a cost by 2^-11 an arc.
TOLERANCE = 0.02

# Words that begin other words, two words spelled alike, a word with two pronunciations, one outside the model.
LM = """\\data\\
ngram 1=8
ngram 2=6
ngram 3=2

\\1-grams:
-1\t<unk>
-99\t<s>\t-0.3
-0.9\t</s>
-0.7\ta\t-0.2
-0.8\tab\t-0.1
-0.6\taba\t-0.25
-1.1\talike\t-0.3
-0.4\tb

\\2-grams:
-0.3\t<s> a\t-0.11
-0.4\ta ab\t-0.12
-0.5\tab a\t0
-0.2\tab </s>
-0.9\taba alike\t-0.05
-0.8\ta </s>

\\3-grams:
-0.1\t<s> a ab
-0.15\ta ab </s>

\\end\\
"""
WORDS = ("a", "ab", "aba", "alike", "b")
PRONUNCIATIONS = [("a", "a"), ("ab", "ab"), ("aba", "aba"), ("aba", "b"), ("alike", "ab"), ("b", "b")]


@pytest.fixture
def files(tmp_path):
    (tmp_path / "lexicon.txt").write_text("\n".join(f"{w} {' '.join(p)}" for w, p in PRONUNCIATIONS) + "\n")
    (tmp_path / "lm.arpa").write_text(LM)
    return tmp_path


def plain_lexicon(rule):
    """L of the definition: no disambiguation of any kind, a word written by an epsilon arc before it."""
    arcs, state = [], 10
    # 0: before a word; 1: after it; 2: a sentence's beginning.
    for word, pronunciation in PRONUNCIATIONS:
        arcs.append((0, state, 0, WORDS.index(word) + 1))
        for at, token in enumerate(pronunciation, 1):
            target = 1 if at == len(pronunciation) else state + 1
            arcs.append((state, target, TOKENS.column(token) + 1, 0))
            state += 1
        state += 1
    between = {
        "none": [(1, 0, 0, 0), (2, 0, 0, 0)],
        "optional": [(1, 0, 0, 0), (1, 0, SPACE, 0), (2, 0, 0, 0), (2, 0, SPACE, 0)],
        "loop": [(1, 1, SPACE, 0), (1, 0, 0, 0), (2, 2, SPACE, 0), (2, 0, 0, 0)],
        "one": [(1, 0, SPACE, 0), (2, 0, SPACE, 0), (2, 0, 0, 0)],
        "many": [(1, 3, SPACE, 0), (3, 3, SPACE, 0), (3, 0, 0, 0), (2, 2, SPACE, 0), (2, 0, 0, 0)],
    }[rule]
    # A state that is only a middle of other arcs is final too where the definition lets a sentence end there.
    return ArcArrays.join([*arcs, *between], finals={0: 0.0, 1: 0.0}, start=2).to_kaldifst()


def cascade(path, topology, loops, rule):
    """T o (L o G), composed and nothing else."""
    g = read_language_model(path / "lm.arpa", WORDS, backoff_label=len(WORDS) + 1).acceptor
    g.inputs = np.where(g.inputs == len(WORDS) + 1, 0, g.inputs).astype(np.int32)
    lexicon, model = plain_lexicon(rule), g.to_kaldifst()
    kaldifst.arcsort(lexicon, sort_type="olabel")
    lg = kaldifst.compose(lexicon, model)
    t = make_topology(topology, len(TOKENS), TOKENS.blank, loops).to_kaldifst()
    kaldifst.arcsort(t, sort_type="olabel")
    return kaldifst.compose(t, lg)


def build(path, *args, **options):
    """The graph, and kaldifst's reading of the OpenFst file that was written on the way."""
    out = path / "TLG.fst"
    graph = Graph.build(*args, progress=False, openfst=out, **options)
    return graph, kaldifst.StdVectorFst.read(str(out))


def assert_same(left, right, frames):
    one, other = said(left, frames), said(right, frames)
    assert one.keys() == other.keys(), frames
    for output, cost in one.items():
        assert cost == pytest.approx(other[output], abs=TOLERANCE), (frames, output)


CASES = [(t, True, "one") for t in TOPOLOGIES] + [(t, False, "one") for t in TOPOLOGIES]
CASES += [("compact", True, r) for r in SEPARATOR_RULES if r != "one"] + [("normal", True, "loop")]


@pytest.mark.parametrize("topology,loops,rule", CASES)
def test_accepts_exactly_what_t_l_and_g_say(files, topology, loops, rule):
    separator = None if rule == "none" else "<space>"
    lexicon = Lexicon.from_file(files / "lexicon.txt", TOKENS, separator=separator)
    graph, tlg = build(files, TOKENS, lexicon, files / "lm.arpa", topology, token_self_loops=loops, separator_rule=rule)
    expected = cascade(files, topology, loops, rule)
    for frames in strings([SPACE, A, B, BLANK], 5):
        assert_same(tlg, expected, frames)
    rng = np.random.default_rng(len(topology))
    for length in (6, 7, 8, 9) * 10:
        frames = rng.choice([SPACE, A, B, BLANK], size=length, p=[0.2, 0.35, 0.35, 0.1])
        assert_same(tlg, expected, frames.tolist())
    assert graph.num_states == tlg.num_states


@pytest.mark.parametrize("rule", SEPARATOR_RULES)
def test_words_by_last_token(files, rule):
    separator = None if rule == "none" else "<space>"
    lexicon = Lexicon.from_file(files / "lexicon.txt", TOKENS, separator=separator)
    _, plain = build(files, TOKENS, lexicon, files / "lm.arpa", separator_rule=rule)
    graph, early = build(files, TOKENS, lexicon, files / "lm.arpa", separator_rule=rule, words_by_last_token=True)
    assert not ((graph.columns == 0xFFFF) & (graph.words > 0)).any()
    for frames in strings([SPACE, A, B, BLANK], 4):
        assert_same(plain, early, frames)


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("rule", ["one", "loop"])
def test_epsilon_free_says_the_same(files, topology, rule):
    lexicon = Lexicon.from_file(files / "lexicon.txt", TOKENS, separator="<space>")
    options = {"separator_rule": rule}
    _, plain = build(files, TOKENS, lexicon, files / "lm.arpa", topology, **options)
    graph, free = build(files, TOKENS, lexicon, files / "lm.arpa", topology, epsilon_free=True, **options)
    assert graph.max_depth == 0 and not (graph.columns == 0xFFFF).any()
    for frames in strings([SPACE, A, B, BLANK], 5):
        assert_same(plain, free, frames)


def test_epsilon_free_refuses_to_explode(files):
    with pytest.raises(ValueError, match=r"would turn [\d,]+ arcs into up to [\d,]+, more than the 1.5 times"):
        Graph.build(
            TOKENS, files / "lexicon.txt", files / "lm.arpa", epsilon_free=True, epsilon_free_limit=1.5, progress=False
        )


def test_lm_scale_and_penalty(files):
    lexicon = Lexicon.from_file(files / "lexicon.txt", TOKENS)
    _, plain = build(files, TOKENS, lexicon, files / "lm.arpa")
    _, scaled = build(files, TOKENS, lexicon, files / "lm.arpa", lm_scale=0.5, word_insertion_penalty=0.25)
    for frames in strings([A, B, BLANK], 4):
        before, after = said(plain, frames), said(scaled, frames)
        assert before.keys() == after.keys()
        # The best path of a word string may be another one when back-off weights scale, but not a worse one.
        for words, cost in after.items():
            assert cost == pytest.approx(0.5 * before[words] + 0.25 * len(words), abs=TOLERANCE)


def test_probabilities_of_pronunciations(files):
    (files / "p.txt").write_text("a 1.0 a\nab 0.25 a b\nab 0.75 b\n")
    lexicon = Lexicon.from_file(files / "p.txt", TOKENS)
    _, tlg = build(files, TOKENS, lexicon, files / "lm.arpa")
    difference = said(tlg, [A, B])[(2,)] - said(tlg, [B])[(2,)]
    assert difference == pytest.approx(np.log(3.0), abs=TOLERANCE)


def test_a_separator_that_no_spelling_uses(files, recwarn):
    spellings = files / "lexicon.txt"
    spellings.write_text("a a\nab a b\n")
    message = r"lexicon: no spelling uses '<space>', which .* separator='<space>' \(--separator\), or"
    with pytest.warns(UserWarning, match=message) as told:
        Graph.build(TOKENS, spellings, files / "lm.arpa")
    assert len(told) == 1
    Graph.build(TOKENS, spellings, files / "lm.arpa", separator=None)
    Graph.build(TOKENS, spellings, files / "lm.arpa", separator="<space>")
    spellings.write_text("ab a b\n")
    with pytest.warns(UserWarning, match="separator: expected '<space>', got 'b', which the lexicon uses in spellings"):
        Graph.build(TOKENS, spellings, files / "lm.arpa", separator="b")
    spellings.write_text("a a <space>\nab a b <space>\n")
    Graph.build(TOKENS, spellings, files / "lm.arpa")
    pieces = TokenTable.from_list(["\u2581", "\u2581a", "b", "<blk>"], blank="<blk>")
    spellings.write_text("a \u2581a\nab \u2581a b\n")
    Graph.build(pieces, spellings, files / "lm.arpa")
    assert not recwarn.list


def test_graph_tells_how_it_was_made(files):
    (files / "lexicon.txt").write_text("a a\nab a b\nzz b b\n")
    said_lines = []
    graph = Graph.build(TOKENS, files / "lexicon.txt", files / "lm.arpa", progress=said_lines.append)
    assert graph.tokens == TOKENS and graph.num_columns == 4 and graph.width_is_exact and graph.blank == 3
    assert dict(graph.word_symbols.items()) == {0: "<eps>", 1: "a", 2: "ab", 3: "zz"}
    assert (graph.join, graph.separator, graph.separator_column) == ("words", None, None)
    p = graph.pronunciations
    assert p.words.tolist() == [1, 2, 3]
    assert (p.offsets.tolist(), p.columns.tolist()) == ([0, 1, 3, 5], [1, 1, 2, 2, 2])
    meta = graph.meta
    assert (meta["topology"], meta["lm_unknown_words"], meta["lm_words_without_unigram"]) == ("compact", 4, 1)
    assert meta["lm_unknown_ngrams"] == 4 + 1
    assert any("left out 4 words not in the lexicon, and " in e.message for e in said_lines)
    lost = "the graph never writes 'zz': the language model lacks these words"
    assert any(e.message == lost for e in said_lines)
    with pytest.warns(UserWarning, match=lost):
        Graph.build(TOKENS, files / "lexicon.txt", files / "lm.arpa", progress=False)
    assert {e.stage for e in said_lines} >= {"lexicon", "lm", "compose", "determinize", "minimize", "graph"}
    assert all(a.seconds <= b.seconds for a, b in itertools.pairwise(said_lines))


def test_progress_lines_go_to_stderr(files, capsys):
    given = TOKENS, files / "lexicon.txt", files / "lm.arpa"
    Graph.build(*given, progress=True)
    out, err = capsys.readouterr()
    assert out == "" and " s] determinize: determinizing L o G\n" in err and err.count(" s] determinize: ") == 2
    for progress in (False, None):  # it is no terminal
        Graph.build(*given, progress=progress)
        assert capsys.readouterr() == ("", "")


def test_progress_that_is_no_function(files):
    with pytest.raises(TypeError, match=r"^progress: expected a function, a bool or None, got str"):
        Graph.build(TOKENS, files / "lexicon.txt", files / "lm.arpa", progress="yes")
    with pytest.raises(TypeError, match=r'^separator: expected a token, a mark, "auto" or None, got int'):
        Graph.greedy(TOKENS, separator=3)


def test_each_step_begins_before_it_ends(files):
    events = []
    Graph.build(TOKENS, files / "lexicon.txt", files / "lm.arpa", progress=events.append)
    begun = [event.stage for event in events if event.is_begin]
    assert begun == ["lexicon", "lm", "compose", "determinize", "minimize", "compose", "graph"]
    for place, event in enumerate(events):
        assert event.is_begin or event.stage in [before.stage for before in events[:place] if before.is_begin]


def test_spelled_lexicon_gives_the_graph_its_separator(files):
    graph = Graph.build(TOKENS, Lexicon.spell(["a", "ab", "b"], TOKENS), files / "lm.arpa", progress=False)
    assert (graph.separator, graph.separator_column) == ("<space>", 0)
    assert graph.meta["separator_rule"] == "one"


@pytest.mark.parametrize(
    "options,message",
    [
        ({"topology": "ctc"}, "topology: expected one of 'compact', 'normal', 'eesen', 'identity', got 'ctc'"),
        ({"separator_rule": "two"}, "separator_rule: expected one of 'auto', 'none'"),
        ({"separator_rule": "one"}, "separator rule 'one' needs a separator token"),
        ({"lm_scale": -1.0}, "lm_scale: expected a finite number of at least 0, got -1.0"),
        ({"lm_scale": float("nan")}, "lm_scale: expected a finite number"),
        ({"word_insertion_penalty": float("inf")}, "word_insertion_penalty: expected a finite number, got inf"),
        ({"token_encoding": "utf-8"}, "token_encoding: expected one of 'names', 'nemo', got 'utf-8'"),
        (
            {"separator": "|"},
            r"separator: expected one of the \d+ tokens, got '\|'; it may be '<space>' \(column \d+\)",
        ),
    ],
)
def test_bad_options(files, options, message):
    with pytest.raises(ValueError, match=message.replace("|", r"\|")):
        Graph.build(TOKENS, files / "lexicon.txt", files / "lm.arpa", progress=False, **options)


def test_options_that_are_no_numbers(files):
    with pytest.raises(TypeError, match="lm_scale: expected a number, got str"):
        Graph.build(TOKENS, files / "lexicon.txt", files / "lm.arpa", progress=False, lm_scale="1")


def test_no_blank(files):
    with pytest.raises(ValueError, match="'compact' needs the column of the blank"):
        Graph.build(["a", "b"], files / "lexicon.txt", files / "lm.arpa", progress=False)


def test_nothing_in_common(files):
    (files / "lexicon.txt").write_text("x a\n")
    with pytest.raises(ValueError, match="no word of the language model is in the lexicon of 1 words"):
        Graph.build(TOKENS, files / "lexicon.txt", files / "lm.arpa", progress=False)


def test_missing_files(files):
    with pytest.raises(FileNotFoundError):
        Graph.build(TOKENS, files / "lexicon.txt", files / "none.arpa", progress=False)
    with pytest.raises(FormatError):
        Graph.build(TOKENS, files / "lm.arpa", files / "lm.arpa", progress=False)


def test_kaldifst_missing(files, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "kaldifst", None)
    with pytest.raises(MissingDependencyError, match=r"needs the package kaldifst.*pip install kaldifst"):
        Graph.build(TOKENS, files / "lexicon.txt", files / "lm.arpa", progress=False)


def test_the_same_inputs_make_the_same_file(files):
    for name, pause in (("a", 0.0), ("b", 0.1)):  # however long it took
        options = {"separator": None, "progress": lambda _, pause=pause: time.sleep(pause)}
        Graph.build(TOKENS, files / "lexicon.txt", files / "lm.arpa", **options).save(files / name)
    assert (files / "a").read_bytes() == (files / "b").read_bytes()


def test_a_blank_that_is_called_otherwise(files, recwarn):
    given = files / "lexicon.txt", files / "lm.arpa"
    tokens = ["<space>", "a", "b", "<blank>"]
    Graph.build(tokens, *given, separator="<space>", progress=False)
    assert not [one for one in recwarn if "blank" in str(one.message)]
    with pytest.warns(
        UserWarning, match="blank: expected '<blank>', which is column 3, got '<space>', which is column 0"
    ):
        Graph.build(tokens, *given, blank=0, separator=None, progress=False)
    recwarn.clear()
    Graph.build(["-", *tokens[:3]], *given, blank="-", separator="<space>", progress=False)
    assert not [one for one in recwarn if "blank" in str(one.message)]
