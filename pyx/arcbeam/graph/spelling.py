"""The spellings of a graph's words by a lexicon, for the times of words in graphs that do not carry them."""

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from arcbeam.core.warn import warn
from arcbeam.graph.pronunciations import Pronunciations
from arcbeam.graph.symbols import is_far_beyond

if TYPE_CHECKING:
    from arcbeam.graph.compiled_graph import CompiledGraph
    from arcbeam.graph.token_table import TokenTable
    from arcbeam.recipe.lexicon import Lexicon

SHOWN, SAMPLE = 5, 1000  # words that a warning names, and words that are searched for a hint


def written_words(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    """The ids of the words that arcs write, ascending; `words` is that of a graph."""
    most = int(words.max(initial=0))
    if is_far_beyond(most, len(words)):
        ids = np.unique(words).astype(np.int64)
        return ids[ids != 0]
    marks = np.zeros(most + 1, np.bool_)
    marks[words] = True
    marks[0] = False
    return np.flatnonzero(marks)


def unspelled_words(words: npt.NDArray[np.uint32], pronunciations: Pronunciations) -> npt.NDArray[np.int64]:
    """The ids of the words that arcs write, but that have no spelling."""
    return np.setdiff1d(written_words(words), pronunciations.words)


def repeats_words(graph: "CompiledGraph") -> bool:
    """Whether a word of one token that lasts is also that word several times: the topology has no blank between."""
    spelled = graph.pronunciations
    if graph.meta.get("topology") not in ("compact", "eesen") or graph.meta.get("separator_rule", "none") != "none":
        return False
    return graph.join == "pieces" or (spelled is not None and bool((np.diff(spelled.offsets) == 1).any()))


def usual_separator(tokens: "TokenTable") -> str | None:
    """The usual separator or mark of words among the tokens; None where there is none, or several may be meant."""
    from arcbeam.recipe.separators import find_separator

    try:
        return find_separator(tokens)
    except ValueError:
        return None


def separator_of(graph: "CompiledGraph") -> str | None:
    """The separator of a graph; of one from elsewhere, which does not name it, the usual one among its tokens."""
    is_named = graph.separator is not None or graph.separator_column is not None or graph.pronunciations is not None
    if is_named or graph.tokens is None or graph.join == "pieces":
        return graph.separator
    return usual_separator(graph.tokens)


def spell(
    fields: dict[str, Any], lexicon: "str | os.PathLike[str] | Lexicon", max_bytes: int | str | None
) -> tuple[Pronunciations, str | None, int | None]:
    """The pronunciations of a graph's words by a lexicon, and the separator with its column; see `Graph.load`."""
    from arcbeam.lm.kenlm import case_hint
    from arcbeam.recipe.lexicon import Lexicon, check_lexicon
    from arcbeam.recipe.separators import WORD_START

    wanted = ("join", "pronunciations", "word_symbols", "tokens", "separator", "separator_column")
    join, pronunciations, symbols, tokens, separator, column = (fields[name] for name in wanted)
    if join == "pieces":
        raise ValueError(
            "lexicon: expected a graph that writes words, got one that writes pieces, which have no lexicon"
        )
    if pronunciations is not None:
        raise ValueError(
            "lexicon: expected a graph without spellings, got one that contains them; leave the lexicon out"
        )
    if symbols is None:
        raise ValueError("lexicon: expected a graph with word symbols, got none; give words (--words)")
    if fields["blank"] is None:
        raise ValueError("lexicon: expected a graph whose blank is known; give tokens (--tokens) or blank (--blank)")
    check_lexicon(lexicon)
    if not isinstance(lexicon, Lexicon):
        if tokens is None:
            raise ValueError("lexicon: expected a graph with tokens, which name its columns; give tokens (--tokens)")
        lexicon = Lexicon.from_file(lexicon, tokens, max_bytes=max_bytes)
    if separator is None and column is None:
        separator, column = lexicon.separator, lexicon.separator_column
    if separator is None and column is None and tokens is not None:
        separator = usual_separator(tokens)
        column = None if separator in (None, WORD_START) else tokens.column(str(separator))

    # A separator at an end of a spelling, as Flashlight's recipes have it, is silence around the word.
    columns, offsets = lexicon.columns, lexicon.offsets.astype(np.int64)
    starts, ends = offsets[:-1].copy(), offsets[1:].copy()
    if column is not None:
        while np.any(more := (starts < ends) & (columns[np.minimum(starts, len(columns) - 1)] == column)):
            starts += more
        while np.any(more := (starts < ends) & (columns[ends - 1] == column)):
            ends -= more
    ids = {symbol: found for found, symbol in symbols.items()}
    labels = [ids.get(word) for word in lexicon.words]
    spans = zip(lexicon.word_index.tolist(), starts.tolist(), ends.tolist(), strict=True)
    found = [(label, columns[a:b].tolist()) for word, a, b in spans if (label := labels[word]) is not None and a < b]
    spelled = Pronunciations.from_lists(found)
    spelled.check(fields["num_columns"])
    written = fields["columns"]["words"]
    unspelled = unspelled_words(written, spelled)
    if len(unspelled):
        names = [symbols[int(i)] for i in unspelled[:SAMPLE]]
        of, some = len(written_words(written)), ", ".join(map(repr, names[:SHOWN])) + ", ..." * (len(unspelled) > SHOWN)
        lacks = f"lexicon: it lacks {len(unspelled):,} of the {of:,} words that the graph writes ({some})"
        hint = case_hint(names, set(lexicon.words))
        if len(unspelled) == of:
            raise ValueError(lacks + (hint or "; is it the lexicon of this graph?"))
        warn(f"{lacks}, whose times are those of the frames that write them{hint}")
    return spelled, separator, column
