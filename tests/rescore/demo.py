"""Real speech, graph and models, small enough for the emulator."""

import numpy as np
import pytest

from arcbeam import Graph, LanguageModel, TokenTable

WORDS = ["and", "mister", "john", "dashwood", "had", "a", "an", "at", "the", "then", "leisure", "to"]
PAIRS = [("<s>", "mister"), ("mister", "john"), ("john", "dashwood"), ("had", "then"), ("to", "a")]


def demo_speech(demo_data, folder):
    """Returns (graph, models, log-probs of an utterance): the small model is one of words, the large one a bigram."""
    pytest.importorskip("kaldifst", reason="building the graph needs .[build]")
    from arcbeam.recipe.lexicon import Lexicon

    with np.load(demo_data / "log_probs.npz") as data:
        rows = data["log_probs"][: data["lengths"][0]]
    tokens = TokenTable.read(demo_data / "tokens.txt")
    small, large = folder / "unigram.arpa", folder / "bigram.arpa"
    head = ["\\data\\", f"ngram 1={len(WORDS) + 2}"]
    plain = ["", "\\1-grams:", "-1\t</s>", "-99\t<s>", *(f"-1\t{word}" for word in WORDS), ""]
    unigrams = ["", "\\1-grams:", "-1\t</s>", "-99\t<s>\t-0.25", *(f"-1\t{word}\t-0.125" for word in WORDS), ""]
    small.write_text("\n".join([*head, *plain, "\\end\\", ""]))
    bigrams = ["\\2-grams:", *(f"-0.5\t{a} {b}" for a, b in PAIRS), ""]
    large.write_text("\n".join([*head, f"ngram 2={len(PAIRS)}", *unigrams, *bigrams, "\\end\\", ""]))
    graph = Graph.build(tokens, Lexicon.spell(WORDS, tokens), small)
    return graph, (LanguageModel.build(large), LanguageModel.build(small)), rows
