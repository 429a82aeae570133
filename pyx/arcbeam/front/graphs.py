"""The graph of a model's tokens and of a language model, from the cache or built."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from arcbeam.core.errors import FormatError
from arcbeam.core.show import few, shortened
from arcbeam.core.warn import warn
from arcbeam.files.reading import check_is_file
from arcbeam.graph.graph import Graph
from arcbeam.graph.spelling import written_words
from arcbeam.graph.token_table import TokenTable
from arcbeam.lm import kenlm_file, lm_file
from arcbeam.lm.loading import arpa_of
from arcbeam.recipe import cache
from arcbeam.recipe.lexicon import Lexicon, check_lexicon
from arcbeam.recipe.progress import OnTerminal
from arcbeam.recipe.separators import check_is_not_blank, find_separator, is_blank, warn_of_another_name
from arcbeam.recipe.word_lists import read_words, words_of_arpa
from arcbeam.tokens.model_tokens import WORD_START, ModelTokens, digest_of, with_marked_starts

if TYPE_CHECKING:
    from arcbeam.graph.inputs import StrPath
    from arcbeam.lm.kenlm import KenLM
    from arcbeam.lm.language_model import LanguageModel

GIVE_LEXICON = "give lexicon=, lines 'word token token ...'"
KIND = "ctc"  # of a graph in the cache
# Columns up to which greedy graphs, and those with words of one token, are of the topology normal, whose arcs grow by
# the square of the columns.
MOST_NORMAL_GREEDY, MOST_NORMAL = 300, 1100
EQUAL = -0.000848  # log10 of the probability of every word where there is no language model: a cost of 2^-9
FEWEST_LETTERS, LETTERS_SHARE = 3, 0.9  # by which a language model over letters is recognised


@dataclass(frozen=True)
class Parts:
    """All that a graph is made of."""

    model: ModelTokens
    table: TokenTable
    lm: StrPath | LanguageModel | KenLM | None
    lexicon: StrPath | Lexicon | None
    words: StrPath | Iterable[str] | None
    word_delimiter: str | None
    topology: str | None


def graph_of(parts: Parts, use_cache: bool) -> Graph:
    """The graph of the parts; :func:`arcbeam.ctc_decoder` documents them and the errors."""
    if parts.lexicon is not None and parts.words is not None:
        raise ValueError("expected lexicon or words, got both: a lexicon already lists its words")
    separator = _separator(parts)
    if parts.lm is None and parts.lexicon is None and parts.words is None:
        topology = "normal" if len(parts.table) <= MOST_NORMAL_GREEDY else "greedy"
        return Graph.greedy(with_marked_starts(parts.table), separator=separator, topology=parts.topology or topology)
    check_lexicon(parts.lexicon)
    arpa = None if parts.lm is None else _checked(arpa_of(parts.lm))
    if isinstance(parts.words, str) and "\n" in parts.words:
        raise ValueError(
            f"words: expected the path of a file with a word a line, or a list of words, got text of "
            f"{len(parts.words.split()):,} words, {shortened(parts.words, 40)}; give the path, or text.split()"
        )
    if parts.words is not None and not isinstance(parts.words, (str, os.PathLike)):
        parts = replace(parts, words=_words(parts.words))

    def build() -> Graph:
        return _built(parts, separator, arpa)

    graph = cache.kept(KIND, _key(parts, separator, arpa), build, warn) if use_cache else build()
    if parts.words is not None:
        _warn_of_lost(parts.words, graph)
        _warn_of_unwritten("words", graph)
    elif parts.lexicon is not None:
        _warn_of_unwritten("lexicon", graph)
    elif arpa is not None:
        _warn_of_left_out(os.fsdecode(arpa), graph)
        if separator is not None:
            _warn_of_letters(os.fsdecode(arpa), graph)
    return graph


def _words(words: Iterable[str]) -> tuple[str, ...]:
    """The words that the caller lists; TypeError for anything else."""
    if isinstance(words, bytes) or not isinstance(words, Iterable):
        raise TypeError(f"words: expected the path of a file with a word a line, or words, got {type(words).__name__}")
    listed = tuple(words)
    for word in listed:
        if not isinstance(word, str):
            raise TypeError(f"words: expected words as str, got {type(word).__name__} ({word!r})")
    return listed


def _separator(parts: Parts) -> str | None:
    """The token or mark between words: as given, as the tokens' format says, or the usual one."""
    given, expected = parts.word_delimiter, "expected a token, or a mark with which tokens begin"
    if given is not None and not isinstance(given, str):
        raise TypeError(f"word_delimiter: {expected}, got {type(given).__name__}")
    if given is not None:
        check_is_not_blank(parts.table, given, "word_delimiter")
    separator = (parts.model.word_delimiter or None) if given is None else given
    if given is None and separator is not None and is_blank(parts.table, separator):
        separator = None  # the caller names another blank than the format
    if separator is None and parts.model.cutter is not None:
        return WORD_START  # with which the first piece of a word begins, or is read as if it did
    if separator is None:
        try:
            separator = find_separator(parts.table)
        except ValueError as error:
            raise ValueError(f"{parts.model.source}: {error} with word_delimiter=") from None
        if separator is None and parts.lexicon is None:
            warn_of_another_name(parts.table, "word_delimiter")
        return separator
    if not separator or not any(token.startswith(separator) for token in parts.table.tokens):
        raise ValueError(f"word_delimiter: {expected}, got {separator!r}")
    return separator


def _checked(arpa: StrPath) -> StrPath:
    """The path of an ARPA; ValueError for the other files of language models, which lack what a graph needs."""
    check_is_file(arpa)
    with open(os.fspath(arpa), "rb") as file:
        head = file.read(64)
    binary = head.startswith(kenlm_file.MAGIC)
    if binary or lm_file.KIND.begins(head):
        lacks = "KenLM's binary format, which has no list of its words" if binary else "a file of LanguageModel.save"
        raise ValueError(
            f"{os.fsdecode(arpa)}: lm: expected an ARPA, got {lacks}; give the ARPA that it was made from, or a "
            "smaller one, and this file as language_model=, which then rescores it; or without an ARPA words= or "
            "lexicon=, and no language model"
        )
    return arpa


def _key(parts: Parts, separator: str | None, arpa: StrPath | None) -> str:
    """The graph's key in the cache, by the content of all parts."""
    cutter = parts.model.cutter
    said: list[Any] = [parts.table.tokens, parts.table.blank, separator, cutter and cutter.identity, parts.topology]
    files: list[StrPath] = []
    if arpa is None:
        said.append(EQUAL)
    for name, part in (("lm", arpa), ("lexicon", parts.lexicon), ("words", parts.words)):
        if isinstance(part, (str, os.PathLike)):
            files.append(part)
            part = "a file"
        elif isinstance(part, Lexicon):
            arrays = (part.word_index, part.offsets, part.columns, part.costs)
            said += [part.words, part.separator]
            part = digest_of(b"".join(array.tobytes() for array in arrays))
        said.append((name, part))
    return cache.key(files, repr(said))


def _built(parts: Parts, separator: str | None, arpa: StrPath | None) -> Graph:
    with OnTerminal() as progress, tempfile.TemporaryDirectory(prefix="arcbeam-") as folder:
        lexicon = _lexicon(parts, separator, arpa)
        if arpa is None:
            arpa = os.path.join(folder, "equal.arpa")
            _write_equal(arpa, lexicon.words)
        is_normal = lexicon.repeats_words and len(parts.table) <= MOST_NORMAL
        topology = parts.topology or ("normal" if is_normal else "compact")
        return Graph.build(parts.table, lexicon, arpa, topology=topology, progress=progress)


def _lexicon(parts: Parts, separator: str | None, arpa: StrPath | None) -> Lexicon:
    """The lexicon as given, or of words that are spelled in characters or cut into pieces."""
    table, cutter = parts.table, parts.model.cutter
    column = None if separator is None or separator not in table else table.column(separator)
    if parts.lexicon is not None:
        given = parts.lexicon
        lexicon = given if isinstance(given, Lexicon) else Lexicon.from_file(given, table)
        # Spellings that end with the token between words, as torchaudio's do, have it already.
        if cutter is not None or column is None or lexicon.separator is not None or column in lexicon.columns:
            return lexicon
        return replace(lexicon, separator=separator, separator_column=column)
    if parts.words is None:
        assert arpa is not None
        words: Iterable[str] = words_of_arpa(arpa)
    else:
        words = list(read_words(parts.words) if isinstance(parts.words, (str, os.PathLike)) else parts.words)
    source = "words" if arpa is None or parts.words is not None else os.fsdecode(arpa)
    try:
        if cutter is not None:
            return Lexicon.cut(words, cutter.cut, table, separator)
        return Lexicon.spell(words, table, None if column is None else separator)
    except FormatError:
        raise
    except ValueError as error:
        raise ValueError(f"{source}: {error}; or {GIVE_LEXICON}") from None


def _warn_of_lost(given: StrPath | Iterable[str], graph: Graph) -> None:
    """Warns of words of the caller's that the graph lacks, also if it comes from the cache."""
    assert graph.word_symbols is not None
    words = list(dict.fromkeys(read_words(given) if isinstance(given, (str, os.PathLike)) else given))
    symbols = graph.word_symbols
    if lost := [word for word in words if word not in symbols or symbols.id(word) == 0]:  # 0 is epsilon
        phrase = "; of a phrase give each word" if any(len(word.split()) > 1 for word in lost) else ""
        warn(f"words: the graph lacks {few(lost)}, which cannot be spelled in the tokens{phrase}; or {GIVE_LEXICON}")


def _warn_of_left_out(source: str, graph: Graph) -> None:
    """Warns of words of the language model that the tokens cannot spell, also if the graph was cached."""
    assert graph.word_symbols is not None
    if left_out := graph.meta.get("lexicon_left_out"):
        count = len(graph.word_symbols) - 1
        warn(f"{source}: {count:,} words can be written; left out are {left_out}: {GIVE_LEXICON}")


def _warn_of_unwritten(source: str, graph: Graph) -> None:
    """Warns of words that the graph never writes because the language model lacks them, also if it was cached."""
    assert graph.word_symbols is not None
    if graph.meta.get("lm_words_without_unigram"):
        written = {0, *(int(word) for word in written_words(graph.words))}
        if lost := [word for label, word in graph.word_symbols.items() if label not in written]:
            warn(
                f"{source}: the graph never writes {few(lost)}, which the language model lacks; give one that has them"
            )


def _warn_of_letters(source: str, graph: Graph) -> None:
    """Warns if nearly all words of the language model are letters that are tokens, while words are spelled in them."""
    assert graph.word_symbols is not None and graph.tokens is not None
    words = [word for label, word in graph.word_symbols.items() if label]
    letters = [word for word in words if len(word) == 1 and word in graph.tokens]
    if len(letters) >= FEWEST_LETTERS and len(letters) > LETTERS_SHARE * len(words):
        warn(
            f"{source}: lm: expected a language model over words, got one of which {len(letters):,} of {len(words):,} "
            f"words are single tokens, such as {few(letters, most=3)}: is it over letters? A graph of such a model is "
            "built by Graph.build(tokens, None, lm), on the command line by arcbeam build-graph without a list of words"
        )


def _write_equal(path: str, words: Iterable[str]) -> None:
    """A model in which all words cost the same: next to nothing, but more than once is dearer.

    In the topology `compact` a word of one token that lasts several frames can be read as one word or as several.
    """
    rows = ["-99\t<s>", "0\t</s>", *(f"{EQUAL}\t{word}" for word in words)]
    text = "\n".join(rows)
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"\\data\\\nngram 1={len(rows)}\n\n\\1-grams:\n{text}\n\n\\end\\\n")
