"""``arcbeam decode --boost`` with words that a graph lacks, on a graph with an open slot."""

import json

import numpy as np
import pytest

import arcbeam
from arcbeam.graph.graph import OpenSlot
from tests.cli.conftest import TOKENS, WORDS, arcs_of_a_word_loop

SLOT = OpenSlot(np.arange(4, dtype="<u4"), np.full(4, 0.5, "<f4"), np.zeros(4, "<u4"))


@pytest.fixture
def open_graph(tmp_path):
    graph = arcbeam.Graph.from_arcs(
        list(arcs_of_a_word_loop()),
        finals=dict.fromkeys(range(4), 0.0),
        tokens=arcbeam.TokenTable.from_list(TOKENS),
        word_symbols=arcbeam.SymbolTable.from_list(WORDS),
        open_slot=SLOT,
        meta={"topology": "normal"},
    )
    graph.save(tmp_path / "open.arc")
    return tmp_path / "open.arc"


@pytest.fixture
def decode(run, open_graph, tmp_path):
    def decode(boost, *options, lexicon=None, format="json"):
        (tmp_path / "boost.txt").write_text(boost)
        given = ["--boost", tmp_path / "boost.txt"]
        if lexicon is not None:
            (tmp_path / "names.txt").write_text(lexicon)
            given += ["--boost-lexicon", tmp_path / "names.txt"]
        return run("decode", open_graph, "in.npz", "--format", format, "--device", "cpu", *given, *options)

    return decode


def found_in(result):
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_spelled_in_characters(decode):
    one, two, three = found_in(decode("ab\t2.5\ncc\n", "--frame-shift", "0.02", "--confidence", "--nbest", "50"))
    assert [one["text"], two["text"], three["text"]] == ["ab", "cc", ""]
    (word,) = one["words"]
    assert (word["word"], word["start_frame"], word["end_frame"]) == ("ab", 1, 7)
    assert (word["start"], word["end"]) == (1 * 0.02, 7 * 0.02)
    assert 0.5 < word["confidence"] <= 1.0
    assert [(b["phrase"], b["score"], b["first_word"], b["end_word"]) for b in one["boosts"]] == [("ab", 2.5, 0, 1)]
    assert one["nbest"][0]["text"] == "ab" and one["boost_score"] == 2.5
    assert {entry["text"]: entry["boost_score"] for entry in one["nbest"]}["ah bee"] == 0.0


def test_spelled_by_a_lexicon(decode):
    lexicon = "Ann a b\nAnn c a b\nCece c c\nunused a\n"
    one, two, three = found_in(decode("Ann\nCece\t3\n", lexicon=lexicon))
    assert [one["text"], two["text"], three["text"]] == ["Ann", "Cece", ""]


def test_other_formats(decode):
    told = decode("ab\n", "--frame-shift", "0.02", format="ctm")
    assert told.stdout.splitlines()[0].split() == ["one", "1", "0.020", "0.120", "ab"]
    assert decode("ab\n", format="text").stdout.splitlines()[0] == "one ab"
    assert decode("ab\n", format="trn").stdout.splitlines()[0] == "ab (one)"


def test_written_to_lattices(decode, tmp_path):
    found_in(decode("ab\n", "--lattice", tmp_path / "lattices.ark"))
    found = dict(arcbeam.read_lattices(tmp_path / "lattices.ark"))
    assert max(WORDS.index(word) for word in WORDS) + 1 in found["one"].arcs["word"].tolist()


def test_utterances_have_lists_of_their_own(run, open_graph, tmp_path):
    (tmp_path / "one.txt").write_text("ab\n")
    (tmp_path / "two.txt").write_text("cc\n")
    (tmp_path / "map.txt").write_text("one one.txt\ntwo two.txt\n")
    result = run("decode", open_graph, "in.npz", "-f", "json", "--device", "cpu", "--boost-map", tmp_path / "map.txt")
    assert [one["text"] for one in found_in(result)] == ["ab", "cc", ""]


@pytest.mark.parametrize(
    ("boost", "lexicon", "message"),
    [
        ("ax\n", None, "'ax': no token for 'x'"),
        ("Ann\n", "Ann a q\n", "'Ann': its spelling has 'q', which is no token"),
        ("Ann\n", "Ann a <blank>\n", "'Ann': its spelling has the blank"),
        ("Ann\n", "Bob b\n", "'Ann': no token for 'A', but one for 'a'"),
        ("ab 9\n", None, "'9': no token for '9'); in a file a score follows its phrase after a tab, not after a space"),
        (
            "ab,9\n",
            None,
            "'ab,9': no token for ','); in a file a score follows its phrase after a tab, not after a space or a c",
        ),
    ],
)
def test_words_without_a_spelling_are_left_out(decode, boost, lexicon, message):
    result = decode(f"cc\n{boost}", lexicon=lexicon)
    assert [one["text"] for one in found_in(result)] == ["ah bee", "cc", ""]
    assert message in result.stderr and "boost.txt is left out" in result.stderr


def test_a_lexicon_without_spellings(decode):
    result = decode("Ann\n", lexicon="Ann\n")
    assert result.exit_code == 1
    assert "names.txt, line 1: expected tokens after the word 'Ann'" in result.stderr.splitlines()[-1]


def test_a_graph_without_a_slot_says_what_it_leaves_out(run, tmp_path):
    (tmp_path / "boost.txt").write_text("ab\nbee\n")
    result = run("decode", "graph.arc", "in.npz", "-f", "json", "--boost", tmp_path / "boost.txt", "--boost-score", "1")
    assert found_in(result)[0]["text"] == "ah bee"
    assert "boost.txt is left out, because the graph cannot write 1 word ('ab'); " in result.stderr
    assert "--open-slot" in result.stderr


def test_a_lexicon_for_a_graph_without_a_slot(run, tmp_path):
    (tmp_path / "boost.txt").write_text("bee\n")
    (tmp_path / "names.txt").write_text("Ann a b\n")
    given = ("--boost", tmp_path / "boost.txt", "--boost-lexicon", tmp_path / "names.txt")
    result = run("decode", "graph.arc", "in.npz", *given)
    assert result.exit_code == 0
    assert "names.txt spells no words, because the graph has no slot" in result.stderr


@pytest.mark.parametrize(
    ("lexicon", "kind"),
    [
        ("ab\t6.5\ncc ab\t-3\n", "what looks like a list of phrases with scores, which Boost.read and --boost take"),
        ("<eps> 0\nah 1\nbee 2\n", "what looks like a symbol table, or words with scores"),
        ("ab A B\ncc C C\n", "one whose tokens are written in the other case"),
        ("u1 the cat sat\nu2 on a mat\nu3 there\tit was\n", "another file, or the lexicon of another model"),
    ],
)
@pytest.mark.parametrize("word", ["ab", "ah"])
def test_a_file_that_is_no_lexicon(decode, word, lexicon, kind):
    """Also if the graph has all words of the list, so that none of them has to be spelled."""
    result = decode(f"{word}\t2.5\n", lexicon=lexicon)
    assert result.exit_code == 1 and result.stdout == ""
    message = result.stderr.splitlines()[-1]
    assert f"in the graph's tokens, such as 'a b c', got {kind}, in which" in message
    assert "names.txt: expected a lexicon, lines 'word token token ...'" in message


def test_tune_tries_no_penalties_on_an_open_slot(run, open_graph, tmp_path):
    (tmp_path / "said.tsv").write_text("one\tah bee\n")
    given = ("tune", open_graph, "in.npz", "-r", tmp_path / "said.tsv", "--acoustic-scale", "1", "--beam", "5")
    result = run(*given, "--allow-missing")
    assert result.exit_code == 0, result.output
    assert "--word-insertion-penalty 0, because the graph has an open slot" in result.stderr
    refused = run(*given, "--allow-missing", "--word-insertion-penalty", "0,1")
    assert "expected a graph without an open slot" in refused.stderr
