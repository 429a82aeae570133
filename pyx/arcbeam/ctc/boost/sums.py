"""The sums of scores that phrases with the same last word make: they have to be exact."""

import numpy as np

from arcbeam.core.show import shortened
from arcbeam.ctc.boost._boost import BoostList
from arcbeam.graph.graph import Graph

LARGEST_SUM = 8192.0  # below which sums of multiples of 1/1024 are exact in float32


def check_sums(graph: Graph, made: BoostList, name: str) -> None:
    """ValueError if phrases change a score by too much; `name` follows "phrases" in the message."""
    if made.largest < LARGEST_SUM:
        return
    assert graph.word_symbols is not None
    word = int(made.arcs["word"][np.abs(made.arcs["cost"]).argmax()])
    is_new = made.new_words is not None and word >= made.new_words.first_word
    symbols = made.new_words.symbols if made.new_words is not None and is_new else graph.word_symbols
    raise ValueError(
        f"boost: the phrases{name} that end with {shortened(symbols[word])} change a score by {made.largest:g}; "
        f"expected less than {LARGEST_SUM:g}, up to which sums are exact: give lower scores, or fewer phrases within "
        "one another"
    )
