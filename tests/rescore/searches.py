"""Every kind of search with boosts or a large language model on one graph: what it takes, and its check."""

from typing import Any

import numpy as np

from arcbeam import Boost, Graph, SymbolTable, TokenTable
from arcbeam.graph.graph import OpenSlot
from tests.decode import both_engines, graphs
from tests.decode.both_engines import Seen
from tests.decode.language_models import WORDS, over, random_model
from tests.decode.small_search import BATCH
from tests.decode.test_new_words import arcs_of
from tests.rescore import placed
from tests.rescore.placed import PLACES

LETTERS = [*"abcdefghijk", "<blank>"]
# The words that phrases have, those of the graph or new ones, and where the large model is; None without either.
SEARCHES = [(words, place) for words in (None, "known", "new") for place in (None, *PLACES) if words or place]
OPTIONS = {"beam": 6.0, "max_active": 40}
BITS = (12, 12)  # of the states of the small model and of the boost; 64 - 24 are left for those of the large one
_RNG = np.random.default_rng(4)
# Both know <unk>, as which new words count.
LARGE, SMALL = (
    random_model(_RNG, [*WORDS, "<unk>"], order, share=share, cost=lambda r: float(r.gamma(4.0)))
    for order, share in ((3, 0.2), (2, 0.3))
)


def worded(graph: Graph) -> Graph:
    return Graph(**graph.fields() | {"word_symbols": SymbolTable.from_list(["<eps>", *WORDS])})


def open_graph(seed: int, entrances: int = 40, by_epsilons: bool = True, **meta: Any) -> Graph:
    """A random graph, many of whose states enter the slot, some of them several times.

    by_epsilons : whether its epsilon arcs write words
    """
    graph = graphs.random_graph(seed, states=120, columns=12)
    source, target, label, word, weight = arcs_of(graph)
    rng = np.random.default_rng(seed)
    slot = OpenSlot(
        np.sort(rng.integers(0, 120, entrances)).astype("<u4"),
        rng.gamma(1.0, size=entrances).astype("<f4"),
        rng.integers(0, 120, entrances).astype("<u4"),
    )
    return Graph.from_arcs(
        (source, target, label, np.where((label == 0) & (not by_epsilons), 0, word), weight), start=graph.start,
        finals=graph.finals, num_states=120, tokens=TokenTable.from_list(LETTERS),
        word_symbols=SymbolTable.from_list(["<eps>", *WORDS]), meta=meta, open_slot=slot,
    )  # fmt: skip


def known_words(count: int, phrases: int = 40) -> list[Boost]:
    """Lists of phrases of words that the graph has."""
    made = []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        names = {" ".join(rng.choice(WORDS, rng.integers(1, 4))): float(rng.normal(1.0, 2.0)) for _ in range(phrases)}
        made.append(Boost(names))
    return made


def new_words(graph: Graph, count: int, phrases: int = 12) -> list[Boost]:
    """Lists of phrases with new words of up to four letters."""
    made, known = [], [WORDS[word - 1] for word in np.unique(graph.words) if word]
    for seed in range(count):
        rng = np.random.default_rng(seed)
        new = ["".join(rng.choice(LETTERS[:-1], rng.integers(1, 5))) for _ in range(8)]
        phrased = {" ".join(rng.choice([*known[:8], *new], rng.integers(1, 4))) for _ in range(phrases)} | set(new[:4])
        made.append(Boost({phrase: float(rng.normal(4.0, 2.0)) for phrase in sorted(phrased)}))
    return made


CLOSED, OPEN = worded(graphs.random_graph(4, states=120, columns=12)), open_graph(4)
CLOSED_OVER, OPEN_OVER = over(CLOSED, SMALL), over(OPEN, SMALL)


def lists_of(words: str | None, count: int) -> list[Boost] | None:
    """Of so many utterances; of five with new words two have none."""
    if words == "known":
        return known_words(count)
    known, other, third = (WORDS[word - 1] for word in np.unique(OPEN.words)[1:4])
    few = [*new_words(OPEN, 3), Boost({known: 2.0, f"{other} {third}": 1.5}), Boost({})]
    return few[:count] if words else None


def check(
    words: str | None, place: str | None, batch: Any = BATCH[:3], *, graph: Graph | None = None, boost: Any = None,
    bits: tuple[int, int] = BITS, hypotheses_per_state: int | None = None, **options: Any,
) -> Seen:  # fmt: skip
    """As `tests.decode.both_engines.check`, or as `tests.rescore.placed.check` where there is a model."""
    graph = graph or (OPEN if words == "new" else CLOSED)
    options = OPTIONS | options | {"boost": boost or lists_of(words, len(batch))}
    if place is None:
        return both_engines.check(worded(graph), batch, **options)
    models = (placed.kenlm() if place == "kenlm" else LARGE, SMALL)
    return placed.check(
        over(graph, SMALL), models, batch, place=place, unknown_words="unk", bits=bits if words else None,
        hypotheses_per_state=hypotheses_per_state, **options,
    ).seen  # fmt: skip
