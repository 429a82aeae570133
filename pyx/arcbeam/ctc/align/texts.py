"""The texts of a call of `CtcDecoder.align`: checked, and their words spelled in the labels of the decoder's graph."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from arcbeam.core.errors import InputError
from arcbeam.core.show import shortened
from arcbeam.ctc.boost.spellings import Pronounced, Spellings, example
from arcbeam.graph.graph import Graph
from arcbeam.graph.spelling import separator_of
from arcbeam.graph.text_graph import OF_STAR, STAR, Texts

Text: TypeAlias = str | Sequence[str]
SEGMENTATIONS = 8  # ways to cut a word without a spelling into pieces, as of a Boost
NO_LIMIT = 1 << 60  # of the bytes of spellings: texts are the user's own

_labels: WeakKeyDictionary[Graph, Graph] = WeakKeyDictionary()


@dataclass(frozen=True)
class SpelledTexts:
    """Texts that can be aligned, and why others cannot; those are empty among the texts."""

    names: list[list[str]]  # of each text: its words and stars
    texts: Texts
    faults: dict[int, InputError]


def labels_of(graph: Graph) -> Graph:
    """A graph that says how texts are spelled: this one, or for one from elsewhere, which does not name the separator
    among its tokens, one without arcs that does.
    """
    separator = separator_of(graph)
    if separator == graph.separator:
        return graph
    if graph not in _labels:
        _labels[graph] = Graph.from_arcs(
            [],
            finals={0: 0.0},
            num_states=1,
            tokens=graph.tokens,
            blank=graph.blank,
            separator=separator,
            meta=graph.meta,
        )
    return _labels[graph]


def spellings_of(given: Pronounced | str | os.PathLike[str] | None) -> Spellings:
    """How words are spelled that come with a spelling, and those that need one; errors as of `Spellings`."""
    return Spellings(given, SEGMENTATIONS, NO_LIMIT)


def words_of(texts: Any, count: int, is_one: bool, has_star: bool) -> list[list[str]]:
    """The words and stars of each text, no star after another; `is_one`: `texts` is that of a single utterance."""
    if is_one:
        return [_words(texts, "texts", has_star)]
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise TypeError(f"texts: expected a text for each utterance, got {type(texts).__name__}")
    if isinstance(texts, (Mapping, Set)):
        hint = "; list(texts.values()) has those of a mapping" if isinstance(texts, Mapping) else ""
        raise TypeError(f"texts: expected a list in the order of the utterances, got {type(texts).__name__}{hint}")
    listed = list(texts)
    if len(listed) != count:
        raise ValueError(f"texts: expected one for each utterance, {count}, got {len(listed)}")
    return [_words(text, f"texts[{i}]", has_star) for i, text in enumerate(listed)]


def _words(text: Any, name: str, has_star: bool) -> list[str]:
    """The words of one text."""
    if isinstance(text, str):
        words = text.split()
    elif isinstance(text, Sequence) and not isinstance(text, (bytes, bytearray)):
        words = list(text)
        for i, word in enumerate(words):
            if not isinstance(word, str):
                raise TypeError(f"{name}[{i}]: expected a word, got {type(word).__name__}")
            if word.split() != [word]:
                one = "; a list is the words of one text here: give the text itself" if name == "texts" else ""
                raise ValueError(f"{name}[{i}]: expected a word without white space, got {shortened(word)}{one}")
    else:
        raise TypeError(f"{name}: expected a str, or a list of words, got {type(text).__name__}")
    if has_star:
        words = [word for i, word in enumerate(words) if word != STAR or words[i - 1 : i] != [STAR]]
    return words


def spelled(graph: Graph, texts: list[list[str]], given: Spellings, has_star: bool) -> SpelledTexts:
    """The texts in columns: words as given, as the graph spells them, or cut into its tokens."""
    words = list(dict.fromkeys(word for text in texts for word in text if not (has_star and word == STAR)))
    spellings, reasons = _spellings(graph, words, given)
    number = {word: at for at, word in enumerate(spellings)}
    if has_star:
        number[STAR] = OF_STAR
    faults, items = {}, []
    for i, text in enumerate(texts):
        wrong = next((word for word in text if word not in number), None)
        if wrong is not None:
            reason = f"expected words that the tokens of the model can spell, got {shortened(wrong)}, {reasons[wrong]}"
            hint = f"pronunciations= spells words in tokens{example(graph)}"
            if wrong == STAR:
                hint = f"star=, the cost of a frame, makes {STAR} match what the text lacks"
            faults[i] = InputError("texts", reason, hint, utterance=i)
        items.append([] if wrong is not None else [number[word] for word in text])
    return SpelledTexts(texts, Texts(list(spellings.values()), items), faults)


def _spellings(
    graph: Graph, words: list[str], given: Spellings
) -> tuple[dict[str, list[tuple[int, ...]]], dict[str, str]]:
    """The spellings of words, and the reasons of words without one."""
    given.check(graph)
    found: dict[str, list[tuple[int, ...]]] = {}
    symbols, table = graph.word_symbols, graph.pronunciations
    if symbols is not None and table is not None and graph.join == "words":
        for word in words:
            if word not in given and word in symbols:
                own = [_bare(columns, graph.separator_column) for columns in table.of(symbols.id(word))]
                if listed := list(dict.fromkeys(columns for columns in own if columns)):
                    found[word] = listed
    others = [word for word in words if word not in found]
    places, reasons = given.of(others, graph)
    return found | {word: place.of(at) for word, (place, at) in places.items()}, reasons


def _bare(columns: Sequence[int], separator: int | None) -> tuple[int, ...]:
    """A spelling without separators at its ends, which are silence around the word."""
    first, last = 0, len(columns)
    while first < last and columns[first] == separator:
        first += 1
    while first < last and columns[last - 1] == separator:
        last -= 1
    return tuple(columns[first:last])
