"""Tables of words and tokens."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcbeam.core.errors import FormatError
from arcbeam.graph.symbols import SymbolTable
from arcbeam.graph.token_table import TokenTable

SYMBOL = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\t "), min_size=1) | st.just(" ")


def written(folder, text):
    path = folder / "symbols.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@given(st.lists(SYMBOL, unique=True), st.integers(0, 3), st.integers(1, 5))
def test_symbols_survive_write_and_read(tmp_path_factory, symbols, first, step):
    ids = [first + step * i for i in range(len(symbols))]
    table = SymbolTable.from_ids(ids, symbols)
    path = tmp_path_factory.mktemp("symbols") / "words.txt"
    table.write(path)
    assert SymbolTable.read(path) == table
    assert list(table.items()) == list(zip(ids, symbols, strict=True)) and len(table) == len(symbols)
    for symbol_id, symbol in zip(ids, symbols, strict=True):
        assert table[symbol_id] == symbol and table.id(symbol) == symbol_id and symbol in table
    assert table.get(first + step * len(symbols), None) is None and table.get(-1, "x") == "x"
    assert bytes(table.known(1 << 20)) == bytes(int(i in ids) for i in range(max(ids, default=-1) + 1))


ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=3) | st.text("a \t\n\r\ufeff4", max_size=3)


@given(st.lists(ANY, unique=True, min_size=1, max_size=3))
def test_what_is_written_is_what_is_read(tmp_path_factory, symbols):
    """Or else nothing is."""
    table = SymbolTable.from_list(symbols)
    path = tmp_path_factory.mktemp("symbols") / "words.txt"
    path.write_text("before")
    try:
        table.write(path)
    except ValueError:
        assert path.read_text() == "before"
        assert any("\n" in s or s.startswith("\ufeff") or s != s.rstrip(" \t") or not s for s in symbols)
    else:
        assert SymbolTable.read(path) == table


@pytest.mark.parametrize("symbol", ["two\nlines", "\n", "behind ", "behind\t", "\t", ""])
def test_symbols_that_a_line_cannot_hold(tmp_path, symbol):
    path = tmp_path / "words.txt"
    message = f"words.txt: expected symbols that a line of text can hold, .* got {re.escape(repr(symbol))} with id 1;"
    with pytest.raises(ValueError, match=message):
        SymbolTable.from_list(["a", symbol]).write(path)
    assert not path.exists()


def test_white_space_that_a_line_can_hold(tmp_path):
    table = SymbolTable.from_list([" ", "new york", " before", "\r", "\u2028", "a 7"])
    table.write(tmp_path / "words.txt")
    assert SymbolTable.read(tmp_path / "words.txt") == table
    with pytest.raises(ValueError, match=r"got '\\ufeffa' with id 0"):
        SymbolTable.from_list(["\ufeffa"]).write(tmp_path / "words.txt")


def test_forms_of_a_line(tmp_path):
    table = SymbolTable.read(written(tmp_path, "<eps> 0\nthe\t1\r\n  3\n 4 4\n\nnew york 7\n\u2028 9\n"))
    assert dict(table.items()) == {0: "<eps>", 1: "the", 3: " ", 4: " 4", 7: "new york", 9: "\u2028"}


def test_symbols_come_by_id():
    table = SymbolTable.from_ids([5, 0, 2], ["c", "a", "b"])
    assert list(table) == ["a", "b", "c"] == [symbol for _, symbol in table.items()]


def test_missing_symbols():
    table = SymbolTable.from_list(["<eps>", "the"])
    with pytest.raises(KeyError, match="id 2 has no symbol; the table has 2"):
        table[2]
    with pytest.raises(KeyError):
        table[-1]
    with pytest.raises(KeyError):
        table.id("cat")
    with pytest.raises(KeyError):
        SymbolTable.from_ids([5, 9], ["a", "b"])[7]
    assert "cat" not in table and 3 not in table


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a 0\nb\n", "line 2: expected a symbol and its id, got 'b'"),
        ("a 0\nb -1\n", "line 2: expected a symbol and its id"),
        ("a 0\nb 1.5\n", "line 2: expected a symbol and its id"),
        ("a 0\nb 0\n", "line 2: id 0 occurs twice, first in line 1"),
        ("a 0\na 1\n", "line 2: symbol 'a' occurs twice, first with id 0"),
        ("a 4294967296\n", "line 1: id 4294967296 is too large"),
        ("a " + "9" * 40, "line 1: expected a symbol and its id"),
        (b"a 0\n\xff 1\n", "line 2: expected text in UTF-8"),
    ],
)
def test_bad_symbol_files(tmp_path, text, message):
    with pytest.raises(FormatError, match=f"symbols.txt, {message}"):
        SymbolTable.read(written(tmp_path, text))


def test_bad_symbol_lists(tmp_path):
    with pytest.raises(ValueError, match="symbol 'a' occurs twice"):
        SymbolTable.from_list(["a", "b", "a"])
    for wrong, message in [
        ({"a": 5}, "symbols: expected a sequence of str, an id each, got dict"),
        ({"a"}, "symbols: expected a sequence of str, an id each, got set"),
        (["a", 3], "symbols: expected a sequence of str, got int for id 1"),
        (None, "got NoneType"),
    ]:
        with pytest.raises(TypeError, match=message):
            SymbolTable.from_list(wrong)
    with pytest.raises(ValueError, match="id 3 occurs twice"):
        SymbolTable.from_ids([3, 3], ["a", "b"])
    with pytest.raises(ValueError, match="ids run from -1"):
        SymbolTable.from_ids([-1], ["a"])
    with pytest.raises(FileNotFoundError):
        SymbolTable.read(tmp_path / "none.txt")


FORMS = {
    "with <eps>": "<eps> 0\n<blk> 1\na 2\nb 3\n",
    "with <eps> and disambiguation symbols": "<eps> 0\n<blk> 1\na 2\nb 3\n#0 4\n#1 5\n",
    "with <eps>, out of order": "b 3\n<blk> 1\n<eps> 0\na 2\n",
    "without <eps>": "<blk> 0\na 1\nb 2\n",
    "without ids": "<blk>\na\nb\n",
    "without ids, with <eps>": "<eps>\n<blk>\na\nb",
    "with tabs": "<blk>\t0\r\na\t1\r\nb\t2\r\n",
    "with a byte order mark": "\ufeff<blk> 0\na 1\nb 2\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_a_token_file(tmp_path, form):
    table = TokenTable.read(written(tmp_path, FORMS[form]))
    assert table.tokens == ("<blk>", "a", "b") and table.blank == 0
    assert table == TokenTable.from_list(["<blk>", "a", "b"]) and len(table) == 3
    assert table.column("b") == 2 and table[1] == "a" and "a" in table and "<eps>" not in table
    with pytest.raises(KeyError):
        table.column("c")


def test_space_as_a_token(tmp_path):
    assert TokenTable.read(written(tmp_path, "  0\na 1\n<blank> 2\n")).tokens == (" ", "a", "<blank>")
    assert TokenTable.read(written(tmp_path, " 0\na 1\n<blank> 2\n")).tokens == (" ", "a", "<blank>")
    assert TokenTable.read(written(tmp_path, " \na\n<blank>\n")).tokens == (" ", "a", "<blank>")
    assert TokenTable.read(written(tmp_path, "0\n1\n<blank>\n")).tokens == ("0", "1", "<blank>")


def test_tokens_that_look_like_another_form(tmp_path):
    assert TokenTable.read(written(tmp_path, "1 0\n0 1\n2 2\n"), blank="2").tokens == ("1", "0", "2")
    assert TokenTable.read(written(tmp_path, "[\n]\n{\n<blk>\n")).tokens == ("[", "]", "{", "<blk>")
    assert TokenTable.read(written(tmp_path, "[PAD]\na\n")).tokens == ("[PAD]", "a")


def test_blank_by_name_and_by_column(tmp_path):
    path = written(tmp_path, "a 0\n- 1\n<pad> 2\n")
    assert TokenTable.read(path).blank == 2
    assert TokenTable.read(path, blank="-").blank == 1
    assert TokenTable.read(path, blank=0).blank == 0
    assert TokenTable.read(written(tmp_path, "a\nb\n")).blank is None
    epsilon = written(tmp_path, "<eps> 0\na 1\nb 2\n")  # k2's way: epsilon is the blank, and the ids are columns
    assert TokenTable.read(epsilon, blank="<eps>").tokens == ("<eps>", "a", "b")
    assert TokenTable.read(epsilon, blank="b").tokens == ("a", "b")


@pytest.mark.parametrize(
    ("text", "blank", "message"),
    [
        ("", None, "expected tokens, got an empty file"),
        ("a 1\n<blk> 2\n", None, "ids start at 1 .* the column of 'a' may be 0 or 1"),
        ("<eps> 0\na 1\n", None, "ambiguous whether '<eps>' is the blank; name the blank, such as blank='<eps>'"),
        ("<eps> 0\na 1\n", 0, "ambiguous whether '<eps>' is the blank"),
        ("<blk> 0\n<pad> 1\n", None, r"'<blk>' \(column 0\) and '<pad>' \(column 1\) both look like the blank"),
        ("a 0\nb 1\n", "<blk>", "'<blk>' is not among the 2 tokens"),
        ("a 0\nb 1\n", 2, "the blank's column is 2; expected 0 to 1, because there are 2 tokens: is the line"),
        ("a 0\nb 2\n", None, r"expected the ids 0 to 1, each once; id 1 is missing \(ids run from 0 to 2\)"),
        ("a 0\nb 0\n", None, "line 2: id 0 occurs twice"),
        ("a 0\na 1\n", None, "line 2: token 'a' occurs twice"),
        ("a 0\nb\n", None, "line 2: expected a token and its id"),
        ("a\nb 1\n", None, "line 2: expected a token without an id"),
        ("a\n\xff\n".encode("latin-1"), None, "line 2: expected text in UTF-8"),
        (
            "0 <blk>\n1 a\n2 1\n",
            None,
            "one a line in the order of the columns, .* got the ids first, such as '0 <blk>'",
        ),
        ("<blk>,0\na,1\n", None, r"got a comma before the ids, such as '<blk>,0': write a space or a tab in its place"),
        ("u1\tyes no\nu2\tno\n", None, r"got several words a line, such as 'u1\\tyes no'"),
        (
            '{"<blk>": 0, "a": 1}',
            None,
            r"got JSON, which arcbeam\.ctc_decoder reads from a file whose name ends in \.json",
        ),
        (
            '[\n  "<blk>",\n  "a"\n]\n',
            None,
            r"got JSON, which arcbeam\.ctc_decoder reads from a file whose name ends in \.json",
        ),
    ],
)
def test_bad_token_files(tmp_path, text, blank, message):
    with pytest.raises(FormatError, match=message):
        TokenTable.read(written(tmp_path, text), blank)


def test_bad_token_lists():
    with pytest.raises(ValueError, match="token 'a' occurs twice"):
        TokenTable.from_list(["a", "a"])
