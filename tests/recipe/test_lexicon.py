import gzip
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcbeam.core.errors import FormatError, MissingDependencyError
from arcbeam.graph.token_table import TokenTable
from arcbeam.recipe.lexicon import Lexicon
from arcbeam.recipe.lexicon_fst import ambiguous
from arcbeam.recipe.separators import find_separator, separator_of
from arcbeam.recipe.word_lists import read_words, words_of_arpa

TOKENS = TokenTable.from_list(["<space>", "a", "b", "'", "1", "<blank>"])


def write(tmp_path, text, name="lexicon.txt"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def entries(lexicon):
    return [(word, columns, round(cost, 6)) for word, columns, cost in lexicon.pronunciations()]


def test_from_file(tmp_path):
    path = write(tmp_path, "ab a b\n\nb  b\r\nab\ta b a\nab a b\n")
    lexicon = Lexicon.from_file(path, TOKENS)
    assert entries(lexicon) == [("ab", (1, 2), 0), ("ab", (1, 2, 1), 0), ("b", (2,), 0)]
    assert lexicon.words == ("ab", "b") and len(lexicon) == 2 and lexicon.num_pronunciations == 3
    assert lexicon.skipped == {"pronunciations given twice": 1}
    assert lexicon.word_index.dtype == np.uint32 and lexicon.columns.dtype == np.uint16


def test_from_gzip_under_any_name(tmp_path):
    path = write(tmp_path, gzip.compress(b"ab a b\n"))
    assert entries(Lexicon.from_file(path, TOKENS)) == [("ab", (1, 2), 0)]


def test_probabilities_are_found(tmp_path):
    path = write(tmp_path, "ab 1.0 a b\nb 0.25 b\nab 0.5 b\n")
    expected = [("ab", (1, 2), 0), ("ab", (2,), round(math.log(2), 6)), ("b", (2,), round(math.log(4), 6))]
    assert entries(Lexicon.from_file(path, TOKENS)) == expected


def test_probabilities_or_tokens(tmp_path):
    path = write(tmp_path, "one 1 a\nb 0.25 b\n")
    with pytest.raises(FormatError, match="cannot tell whether the second field is a probability or a token"):
        Lexicon.from_file(path, TOKENS)
    assert entries(Lexicon.from_file(path, TOKENS, probabilities=True))[0] == ("one", (1,), 0)
    path = write(tmp_path, "one 1 a\nuno 1\n")
    assert entries(Lexicon.from_file(path, TOKENS, probabilities=False)) == [("one", (4, 1), 0), ("uno", (4,), 0)]


def test_of_equal_pronunciations_the_most_probable_stays(tmp_path):
    path = write(tmp_path, "b 0.25 b\nb 0.5 b\n")
    assert entries(Lexicon.from_file(path, TOKENS)) == [("b", (2,), round(math.log(2), 6))]


@pytest.mark.parametrize(
    "text,message",
    [
        ("a a\nword\n", "line 2: expected tokens after the word 'word', got none"),
        ("a a\nb b x\n", "line 2: expected tokens of the model, got 'x' in the word 'b'"),
        ("a a\nb A\n", "got 'A' in the word 'b'; 'a' is one: write spellings in the tokens' case"),
        ("a a <blank>\n", "line 1: expected tokens, got the blank '<blank>' in the word 'a'"),
        ("a a\n<eps> b\n", "line 2: expected a word, got '<eps>', which is reserved"),
        ("<eps> 0\na 1\n", "got '<eps>', which is reserved; is this a table of words and their numbers"),
        ("a 0.5 a\nb 0.5\n", "line 2: expected tokens after the word 'b', got none"),
        (b"a a\n\xff b\n", "line 2: expected text in UTF-8"),
        ("", "got an empty file"),
    ],
)
def test_bad_files(tmp_path, text, message):
    with pytest.raises(FormatError, match=message):
        Lexicon.from_file(write(tmp_path, text), TOKENS)


@pytest.mark.parametrize("bad", ["x", "0", "1.5", "-1", "nan", "inf"])
def test_bad_probabilities(tmp_path, bad):
    path = write(tmp_path, f"a 0.5 a\nb {bad} b\n")
    with pytest.raises(FormatError, match=f"line 2: expected a probability above 0 and at most 1.*got '{bad}'"):
        Lexicon.from_file(path, TOKENS, probabilities=True)


@pytest.mark.parametrize("bad", ["0", "2.0", "nan"])
def test_a_bad_probability_is_found_where_all_are_numbers(tmp_path, bad):
    path = write(tmp_path, f"a 0.5 a\nb {bad} b\n")
    with pytest.raises(FormatError, match=f"line 2: expected a probability above 0 and at most 1.*got '{bad}'"):
        Lexicon.from_file(path, TOKENS)
    path = write(tmp_path, f"one 1 a\nb {bad} b\n")  # 1 is a token, so these are tokens
    with pytest.raises(FormatError, match=f"line 2: expected tokens of the model, got '{bad}' in the word 'b'"):
        Lexicon.from_file(path, TOKENS)


def test_spell(tmp_path):
    lexicon = Lexicon.spell(["ab", "b'a", "xa", "ab", "<s>", "<eps>"], TOKENS)
    assert entries(lexicon) == [("ab", (1, 2), 0), ("b'a", (2, 3, 1), 0)]
    assert (lexicon.separator, lexicon.separator_column) == ("<space>", 0)
    assert lexicon.skipped == {"words with a character that is no token": 1}
    assert Lexicon.spell(write(tmp_path, "ab\nb\n"), TOKENS).words == ("ab", "b")
    assert Lexicon.spell(["a"], TOKENS, separator=None).separator_column is None
    with pytest.warns(UserWarning, match=r"^separator: no token .*; is it '~'\? separator='~' names it"):
        Lexicon.spell(["a"], TokenTable.from_list(["<blank>", "a", "~"]))


def test_spell_errors():
    with pytest.raises(ValueError, match="got 1 word with a character that is no token, such as 'xyz'; there are"):
        Lexicon.spell(["xyz"], TOKENS)
    for tokens in ("tokens.txt", list(TOKENS.tokens), None):
        with pytest.raises(TypeError, match=r"tokens: expected an arcbeam.TokenTable, got .*; arcbeam.TokenTable.read"):
            Lexicon.spell(["ab"], tokens)
    with pytest.raises(ValueError, match=r"expected words that the tokens can spell, got no words$"):
        Lexicon.spell([], TOKENS)
    with pytest.raises(ValueError, match=r"separator: expected one of the \d+ tokens, got '_'; it may be '<space>'"):
        Lexicon.spell(["a"], TOKENS, separator="_")
    dotted = TokenTable.from_list(["<blank>", "a", "-", "'", "b"])
    with pytest.raises(ValueError, match=r"got ' '; it may be '-' \(column 2\), \"'\" \(column 3\)$"):
        Lexicon.spell(["a"], dotted, separator=" ")
    with pytest.raises(ValueError, match="got ' '; none of the tokens looks like one: leave the separator out"):
        Lexicon.spell(["a"], TokenTable.from_list(["<blank>", "a"]), separator=" ")
    two = TokenTable.from_list(["<space>", "|", "a", "<blank>"])
    with pytest.raises(ValueError, match="one separator between words"):
        find_separator(two)
    assert find_separator(TokenTable.from_list(["a", "<blank>"])) is None
    assert separator_of(TOKENS, "auto") == "<space>" and separator_of(TOKENS, None) is None
    assert separator_of(TokenTable.from_list(["<blank>", "\u2581a", "b"]), "\u2581") == "\u2581"  # a mark
    with pytest.raises(ValueError, match="got '_'; it may be '<space>'"):
        separator_of(TOKENS, "_")


def test_a_separator_that_is_the_blank(tmp_path):
    assert find_separator(TokenTable.from_list(["<space>", "|", "a"], "<space>")) == "|"
    assert find_separator(TokenTable.from_list(["<space>", "<blank>", "a"], "<space>")) is None
    message = "separator: expected the token between words, got '<blank>', which is the blank$"
    with pytest.raises(ValueError, match=message):
        separator_of(TOKENS, "<blank>")
    with pytest.raises(ValueError, match=message):
        Lexicon.spell(["a"], TOKENS, separator="<blank>")
    with pytest.raises(ValueError, match=message):
        Lexicon.from_file(write(tmp_path, "a a\n"), TOKENS, separator="<blank>")


def test_read_words(tmp_path):
    assert read_words(write(tmp_path, "<eps> 0\nb 1\na 2\n#0 3\n<s> 4\n")) == ["b", "a"]
    assert read_words(write(tmp_path, "b\na\nb\n")) == ["b", "a"]
    with pytest.raises(FormatError, match="line 2: expected a word or 'word id', got 'c d'"):
        read_words(write(tmp_path, "b\nc d\n"))


def test_words_of_arpa(tmp_path):
    text = "\\data\\\nngram 1=4\n\n\\1-grams:\n-1 <unk>\n-1 <s> -1\n-1 b -1\n-1 a\n\n\\end\\\n"
    assert words_of_arpa(write(tmp_path, text)) == ["b", "a"]
    with pytest.raises(FormatError, match="expected an ARPA model with unigrams"):
        words_of_arpa(write(tmp_path, "b\n"))
    with pytest.raises(FormatError, match=r"with unigrams, got a table of symbols .*, as tokens= \(--tokens\)"):
        words_of_arpa(write(tmp_path, "<blank> 0\na 1\nb 2\n"))
    with pytest.raises(FormatError, match="line 2: expected a unigram"):
        words_of_arpa(write(tmp_path, "\\1-grams:\n-1\n"))


def test_an_arpa_in_the_place_of_another_file(tmp_path):
    arpa = write(tmp_path, "\n\\data\\\nngram 1=1\n\n\\1-grams:\n-1 a\n\n\\end\\\n")
    with pytest.raises(FormatError, match=r"expected lines 'word token token \.\.\.', got an ARPA .* as lm= \(--lm\)"):
        Lexicon.from_file(arpa, TOKENS)
    with pytest.raises(FormatError, match=r"expected a word a line, got an ARPA .*: give it as lm= \(--lm\)"):
        read_words(arpa)
    with pytest.raises(FormatError, match="expected another kind of text file, got an ARPA language model"):
        TokenTable.read(arpa)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    sentencepiece = pytest.importorskip("sentencepiece")
    folder = tmp_path_factory.mktemp("pieces")
    (folder / "text").write_text("\n".join(["the cat sat on the mat", "then the cat ate", "that hat"] * 20))
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text"), model_prefix=str(folder / "m"), vocab_size=16, minloglevel=2
    )
    return folder / "m.model"


def test_sentencepiece(model):
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    tokens = TokenTable.from_list([*(processor.id_to_piece(i) for i in range(16)), "<blank>"])
    lexicon = Lexicon.sentencepiece(["the", "then", "cat", "qqq"], model, tokens)
    assert lexicon.words == ("the", "then", "cat")
    assert lexicon.skipped == {"words with a piece that is no token": 1}
    for word, columns, _ in lexicon.pronunciations():
        pieces = [tokens.tokens[c] for c in columns]
        assert "".join(pieces) == "\u2581" + word
    assert lexicon.separator == "\u2581" and lexicon.separator_column is None


def test_sentencepiece_errors(model, tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"none\.model"):
        Lexicon.sentencepiece(["a"], tmp_path / "none.model", TOKENS)
    for content, got in (
        ("hello", "one that is damaged or cut short, or another file"),
        ("", "an empty file"),
        ("\\data\\\n", "an ARPA language model: give it as lm= (--lm), or to LanguageModel.build (build-lm)"),
    ):
        with pytest.raises(FormatError) as caught:
            Lexicon.sentencepiece(["a"], write(tmp_path, content, "x.model"), TOKENS)
        assert str(caught.value) == f"{tmp_path / 'x.model'}: expected a SentencePiece model, got {got}"
    (tmp_path / "cut.model").write_bytes(model.read_bytes()[:-3])
    with pytest.raises(FormatError, match=r"cut.model: expected a SentencePiece model, got one that is damaged[^(]*$"):
        Lexicon.sentencepiece(["a"], tmp_path / "cut.model", TOKENS)
    monkeypatch.setitem(__import__("sys").modules, "sentencepiece", None)
    with pytest.raises(MissingDependencyError, match=r"pip install sentencepiece"):
        Lexicon.sentencepiece(["a"], model, TOKENS)


@given(st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=12), st.booleans())
def test_marks_make_pronunciations_distinct(spellings, prefixes):
    lines = [f"w{i} {' '.join(s)}" for i, s in enumerate(spellings)]
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "l"
        path.write_text("\n".join(lines))
        lexicon = Lexicon.from_file(path, TOKENS)
    marks = ambiguous(lexicon, np.arange(lexicon.num_pronunciations), prefixes)
    marked = [
        [*columns[:-1], (columns[-1], marks.get(i, 0))] for i, (_, columns, _) in enumerate(lexicon.pronunciations())
    ]
    plain = [[*columns[:-1], (columns[-1], 0)] for _, columns, _ in lexicon.pronunciations()]
    assert len({str(m) for m in marked}) == len(marked)
    for i, one in enumerate(plain):
        begins = any(
            len(other) > len(one) and [*other[: len(one) - 1], (other[len(one) - 1], 0)] == one for other in plain
        )
        same = plain.count(one)
        if i not in marks:
            assert not (prefixes and begins)
            assert same == 1 or all(j in marks for j, other in enumerate(plain) if other == one and j != i)
        else:
            assert begins or same > 1
