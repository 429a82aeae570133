"""Graphs without a lexicon: the language model's words are the model's tokens."""

import pytest

from arcbeam import Graph
from arcbeam.graph.token_table import TokenTable
from arcbeam.recipe.topology import TOPOLOGIES
from tests.recipe.definitions import LN10, Model, readings, said, strings

TOKENS = TokenTable.from_list(["\u2581a", "b", "\u2581c", "<blank>"])
BLANK = 4


def model(names):
    a, b, c = names
    probabilities = {
        ("<s>",): -99.0, ("</s>",): -1.0, (a,): -0.5, (b,): -0.75, (c,): -0.875,
        ("<s>", a): -0.25, (a, b): -0.125, (b, "</s>"): -0.375, (a, c): -1.5,
        ("<s>", a, b): -0.0625, (a, b, c): -0.25,
    }  # fmt: skip
    backoffs = {("<s>",): -0.25, (a,): -0.5, (b,): -0.125, (c,): 0.0, (a, b): -0.3125, ("<s>", a): -0.1875}
    return Model(probabilities, backoffs, 3)


def build(tmp_path, names, **options):
    import kaldifst

    lm = tmp_path / "lm.arpa"
    lm.write_text(model(names).arpa())
    out = tmp_path / "TG.fst"
    graph = Graph.build(TOKENS, None, lm, progress=False, openfst=out, **options)
    return graph, kaldifst.StdVectorFst.read(str(out))


def lowest_cost(lm, names, string):
    """The definition with the freedom that an epsilon back-off arc gives: backing off is always allowed."""
    continued = {n[:k] for n in lm.probabilities for k in range(1, len(n))}

    def shorter_ones(history):
        cost = 0.0
        while True:
            yield history, cost
            if not history:
                return
            cost += lm.backoffs.get(history, 0.0)
            history = history[1:]

    best = {("<s>",): 0.0}
    for label in string:
        after = {}
        for history, total in best.items():
            for shorter, backed_off in shorter_ones(history):
                ngram = (*shorter, names[label - 1])
                if ngram in lm.probabilities:
                    kept = ngram[-(lm.order - 1) :]
                    # A history that nothing continues is left at once.
                    longer, cost = next((h, c) for h, c in shorter_ones(kept) if h == () or h in continued)
                    value = total + backed_off + lm.probabilities[ngram] + cost
                    after[longer] = max(after.get(longer, -1e9), value)
        best = after
    # Every history carries the exact cost of </s> after it.
    return -LN10 * max(total + lm.log10(history, "</s>") for history, total in best.items())


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_says_all_token_strings(tmp_path, topology):
    names = TOKENS.tokens[:3]
    graph, fst = build(tmp_path, names, topology=topology)
    lm = model(names)
    for frames in strings([1, 2, 3, BLANK], 4):
        found = said(fst, frames)
        assert set(found) == readings(topology, True, BLANK, frames)
        for string, cost in found.items():
            assert cost == pytest.approx(lowest_cost(lm, names, string), abs=1e-4), string
    assert (graph.join, graph.separator, graph.separator_column) == ("pieces", "\u2581", None)
    assert dict(graph.word_symbols.items()) == {0: "<eps>", 1: "\u2581a", 2: "b", 3: "\u2581c", 4: "<blank>"}
    assert not ((graph.columns == 0xFFFF) & (graph.words > 0)).any()


def test_nemo_encoding_says_the_same(tmp_path):
    names = TOKENS.tokens[:3]
    _, plain = build(tmp_path, names)
    _, nemo = build(tmp_path, [chr(100 + i) for i in range(3)], token_encoding="nemo")
    for frames in strings([1, 2, 3, BLANK], 3):
        assert said(plain, frames) == said(nemo, frames)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_epsilon_free(tmp_path, topology):
    _, plain = build(tmp_path, TOKENS.tokens[:3], topology=topology)
    graph, free = build(tmp_path, TOKENS.tokens[:3], topology=topology, epsilon_free=True)
    assert graph.max_depth == 0
    for frames in strings([1, 2, 3, BLANK], 4):
        one, other = said(plain, frames), said(free, frames)
        assert one.keys() == other.keys()
        for string, cost in one.items():
            assert other[string] == pytest.approx(cost, abs=1e-3)


def test_a_model_over_words_is_refused(tmp_path):
    with pytest.raises(
        ValueError,
        match=r"got one over words \(3 of its words are not tokens, 0 are\); give a lexicon .*--lm-words",
    ):
        build(tmp_path, ["the", "cat", "sat"])
    with pytest.raises(ValueError, match=r"\(2 of its words are not tokens, 1 are\)"):  # one is a token, too
        build(tmp_path, [TOKENS[0], "cat", "sat"])
