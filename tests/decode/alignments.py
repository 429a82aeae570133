"""A small graph whose words are aligned, and when two lists of alignments are the same."""

import json

import numpy as np

from arcbeam import CtcDecoder, Graph
from arcbeam.graph.pronunciations import Pronunciations

TOKENS = ["<blank>", "a", "b", "|"]
BLANK, SEPARATOR = 0, 3
WORDS = {"a": [(1,)], "ab": [(1, 2)], "aa": [(1, 1)], "bee": [(2,), (2, 1, 1)]}


def a_graph(topology="compact", separator="|", tokens=TOKENS, words=WORDS):
    """A graph whose lexicon has some words; alignments take nothing else of it."""
    spellings = [(i + 1, spelling) for i, word in enumerate(words) for spelling in words[word]]
    return Graph.from_arcs(
        [(0, 0, 1, 1, 0.0)], finals={0: 0.0}, tokens=tokens, word_symbols=["<eps>", *words],
        pronunciations=Pronunciations.from_lists(spellings), separator=separator, meta={"topology": topology},
    )  # fmt: skip


def a_decoder(device="cpu", graph=None, **options):
    options = {"threads": 1, "frame_shift": 0.5} | options
    return CtcDecoder(a_graph() if graph is None else graph, device=device, **options)


def same(found, wanted):
    """Asserts that alignments have the same bytes."""
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert json.dumps(one.to_dict()) == json.dumps(other.to_dict())  # also of -0.0
        assert one.tokens.tobytes() == other.tokens.tobytes()
        assert one.frame_scores.tobytes() == other.frame_scores.tobytes()
        assert np.float64(one.score).tobytes() == np.float64(other.score).tobytes()
