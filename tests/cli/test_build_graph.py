"""``arcbeam build-graph``: every source of words, and what is wrong with bad ones."""

import json
import math

import pytest

from arcbeam import Graph

pytest.importorskip("kaldifst")

ARPA = """\\data\\
ngram 1=5

\\1-grams:
-99 <s>
-0.5 </s>
-0.5 {0}
-0.7 {1}
-0.7 {2}

\\end\\
"""


@pytest.fixture
def sources(tmp_path):
    """tokens.txt of letters, word.arpa over words of them, token.arpa over the letters, words.txt and lexicon.txt."""
    (tmp_path / "tokens.txt").write_text("<space>\na\nb\n<blank>\n")
    (tmp_path / "word.arpa").write_text(ARPA.format("ab", "ba", "b"))
    (tmp_path / "token.arpa").write_text(ARPA.format("a", "b", "<space>"))
    (tmp_path / "words.txt").write_text("ab\nba\nxyz\n")
    (tmp_path / "lexicon.txt").write_text("ab a b\nba b a\nba b b a\n")
    return tmp_path


def build(run, sources, *options, lm="word.arpa"):
    output = sources / "out.arc"
    arguments = ("--tokens", sources / "tokens.txt", "--lm", sources / lm, "--output", output, *options)
    return run("build-graph", *arguments), output


def info(run, graph):
    return json.loads(run("info", graph, "--json").stdout)


@pytest.mark.parametrize(
    ("options", "lm", "words"),
    [
        (["--word-list", "words.txt"], "word.arpa", 3),
        (["--lexicon", "lexicon.txt"], "word.arpa", 3),
        (["--lm-words"], "word.arpa", 4),
        ([], "token.arpa", None),
    ],
)
def test_sources_of_words(run, sources, options, lm, words):
    options = [sources / o if o.endswith(".txt") else o for o in options]
    result, graph = build(run, sources, *options, lm=lm)
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    assert f"wrote {graph}: " in result.stderr
    assert "compose: " in result.stderr  # the steps are told as they come
    shape = info(run, graph)
    assert shape["columns"] == 4
    assert shape["width_is_exact"]
    if words is not None:
        assert shape["words"] == words


def test_options_reach_the_recipe(run, sources):
    options = ("--lm-words", "--topology", "normal", "--no-token-self-loops", "--lm-scale", "0.5",
               "--word-insertion-penalty", "-0.25", "--openfst", sources / "TLG.fst")  # fmt: skip
    result, graph = build(run, sources, *options)
    assert result.exit_code == 0, result.output
    meta = info(run, graph)["meta"]
    assert meta["topology"] == "normal"
    assert not meta["token_self_loops"]
    assert (meta["lm_scale"], meta["word_insertion_penalty"]) == (0.5, -0.25)
    tables = ("--words", sources / "TLG.words.txt", "--tokens", sources / "TLG.tokens.txt")
    elsewhere = run("info", sources / "TLG.fst", *tables, "--json")
    assert elsewhere.exit_code == 0, elsewhere.output
    shape = json.loads(elsewhere.stdout)
    assert (shape["columns"], shape["words"], shape["blank"]) == tuple(
        info(run, graph)[name] for name in ("columns", "words", "blank")
    )


def test_epsilon_free(run, sources):
    result, graph = build(run, sources, "--lm-words", "--epsilon-free")
    assert result.exit_code == 0, result.output
    assert info(run, graph)["epsilon_arcs"] == 0


def test_words_by_last_token(run, sources):
    shapes = []
    for option in ([], ["--words-by-last-token"]):
        result, graph = build(run, sources, "--lm-words", *option)
        assert result.exit_code == 0, result.output
        shapes.append(info(run, graph))
    assert [s["meta"]["words_by_last_token"] for s in shapes] == [0, 1]
    # b begins ba, so without the option a word is written by an arc that reads nothing.
    assert shapes[0]["epsilon_arcs_with_word"] > 0 == shapes[1]["epsilon_arcs_with_word"]


def test_open_slot(run, sources):
    result, graph = build(run, sources, "--lm-words", "--open-slot", "--open-slot-score", "-4.5")
    assert result.exit_code == 0, result.output
    assert info(run, graph)["meta"]["open_slot_score"] == -4.5
    slot = Graph.load(graph).open_slot
    assert (slot.weights == 4.5).all()
    result, graph = build(run, sources, "--lm-words")
    assert Graph.load(graph).open_slot is None
    (sources / "word.arpa").write_text(ARPA.format("ab", "ba", "<unk>"))
    result, graph = build(run, sources, "--lm-words", "--open-slot")
    assert info(run, graph)["meta"]["open_slot_score"] == pytest.approx(-0.7 * math.log(10.0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--lm-words", "--open-slot"], "give --open-slot-score"),
        (["--lm-words", "--epsilon-free", "--epsilon-free-limit", "0.01"], "epsilon_free_limit"),
        (["--lexicon", "gone.txt"], "gone.txt"),
        (["--word-list", "gone.txt"], "gone.txt"),
        (["--word-list", "words.txt", "--sentencepiece-model", "gone.model"], "gone.model"),
        (["--lm-words", "--blank", "nothing"], "nothing"),
        (["--lm-words", "--separator", "%"], "'%'"),
    ],
)
def test_what_cannot_be_built(run, sources, options, message):
    options = [sources / o if o.endswith((".txt", ".model")) else o for o in options]
    result, graph = build(run, sources, *options)
    assert result.exit_code == 1
    last = result.stderr.splitlines()[-1]
    assert last.startswith("error: ") and message in last
    assert not graph.exists()


def test_lexicon_probabilities(run, sources):
    (sources / "lexicon.txt").write_text("ab 0.5 a b\nba 1.0 b a\n")
    lexicon = ("--lexicon", sources / "lexicon.txt", "--lexicon-probabilities")
    assert build(run, sources, *lexicon, "auto")[0].exit_code == 0
    assert build(run, sources, *lexicon, "yes")[0].exit_code == 0
    result, _ = build(run, sources, *lexicon, "no")
    assert result.exit_code == 1
    assert "expected tokens of the model, got '0.5'" in result.stderr


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tokens.txt", "a\na\n<blank>\n", "tokens.txt"),
        ("word.arpa", "hello\n", "word.arpa"),
        ("word.arpa", ARPA.format("ab", "ba", "b").replace("-0.7", "zero"), "word.arpa, line 8"),
        ("lexicon.txt", "ab a q\n", "lexicon.txt, line 1: expected tokens of the model, got 'q'"),
        ("lexicon.txt", "ab\n", "lexicon.txt, line 1: expected tokens after the word 'ab'"),
    ],
)
def test_bad_sources(run, sources, name, content, message):
    (sources / name).write_text(content)
    result, graph = build(run, sources, "--lexicon", sources / "lexicon.txt")
    assert result.exit_code == 1
    assert not graph.exists()
    last = result.stderr.splitlines()[-1]
    assert last.startswith("error: ")
    assert message in last


def test_skipped_words_are_named(run, sources):
    (sources / "words.txt").write_text("ab\nba\nxyz\nb4\n" + "".join(f"q{i}\n" for i in range(9)))
    result, _ = build(run, sources, "--word-list", sources / "words.txt")
    named = "11 words with a character that is no token ('xyz', 'b4', 'q0', 'q1', 'q2' and 6 more)"
    assert result.exit_code == 0 and named in result.stderr
    (sources / "words.txt").write_text("ab\nba\nxyz\n")
    assert "1 words with a character that is no token ('xyz')" in build(
        run, sources, "--word-list", sources / "words.txt"
    )[0].stderr  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--open-slot", "--open-slot-score", "nan"], "'--open-slot-score': expected a finite number, got nan"),
        (["--open-slot", "--epsilon-free"], "'--open-slot': expected no --epsilon-free, because"),
        (["--open-slot", "--openfst", "TLG.fst"], "'--open-slot': expected no --openfst, because"),
        (["--lm-scale", "-1"], "'--lm-scale': expected a finite number of at least 0, got -1.0"),
        (["--lm-scale", "nan"], "'--lm-scale': expected a finite number of at least 0, got nan"),
        (["--word-insertion-penalty", "inf"], "'--word-insertion-penalty': expected a finite number, got inf"),
    ],
)
def test_options_that_do_not_fit(run, options, message):
    """They are errors of usage, before a file is read."""
    given = ("--tokens", "gone.txt", "--lm", "gone.arpa", "--lm-words", "-o", "out.arc")
    result = run("build-graph", *given, *options)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())


def test_an_open_slot_needs_a_lexicon(run):
    result = run("build-graph", "--tokens", "gone.txt", "--lm", "gone.arpa", "-o", "out.arc", "--open-slot")
    assert result.exit_code == 2 and "'--open-slot': this needs a lexicon" in result.stderr


def test_a_name_of_openfst(run, sources):
    given = ("--tokens", sources / "tokens.txt", "--lm", sources / "word.arpa", "--lm-words")
    result = run("build-graph", *given, "-o", "TLG.fst")
    said = " ".join(result.stderr.replace("│", " ").split())
    assert result.exit_code == 2
    assert (
        "'--output': writes a graph of arcbeam, and TLG.fst is a name of OpenFst's; type --output TLG.arcbeam" in said
    )
    assert "--openfst TLG.fst, too" in said


def test_outputs_that_cannot_be_written(run, sources):
    result = run("build-graph", "--tokens", "t", "--lm", "l", "-o", sources / "no" / "out.arc")
    assert result.exit_code == 1
    assert "the folder does not exist" in result.stderr
    result = run("build-graph", "--tokens", "t", "--lm", "l", "-o", sources)
    assert result.exit_code == 1
    assert f"--output: expected the name of a file, got the folder {sources}" in result.stderr


def test_sources_that_do_not_fit_together_say_how(run, sources):
    """A name with a slip, labels in one line, another case, no blank."""

    def error_of(*options):
        result, _ = build(run, sources, *options)
        assert result.exit_code == 1
        return result.stderr.splitlines()[-1]

    tokens = (sources / "tokens.txt").read_text()
    assert f"is it {sources / 'words.txt'}?" in error_of("--word-list", sources / "wordss.txt")
    (sources / "capitals.txt").write_text((sources / "words.txt").read_text().upper())
    assert "write the words and the tokens in the same case" in error_of("--word-list", sources / "capitals.txt")
    (sources / "tokens.txt").write_text(repr(tokens.split()) + "\n")
    assert "there is 1 token (" in error_of("--lm-words", "--separator", "none", "--topology", "identity")
    (sources / "tokens.txt").write_text("".join(x for x in tokens.splitlines(True) if "<b" not in x))
    assert "add its line, <blank>, to the file of the tokens" in error_of("--lm-words")
