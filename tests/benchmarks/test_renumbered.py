"""Columns and words in another order: the same answers, unless there are ties."""

import numpy as np
import pytest

from arcbeam.baseline import with_separator
from arcbeam.graph.token_table import TokenTable
from arcbeam.recipe.lexicon import Lexicon
from benchmarks.adapters.baseline import Baseline, Task
from benchmarks.tasks.renumbered import renumbered

TOKENS = TokenTable.from_list(["|", "a", "b", "c", "<blank>"])
WORDS = ["ab", "a", "cab", "c", "bac", "b"]
OPTIONS = {"beam_size": 20, "beam_threshold": 50.0, "lm_weight": 0.0, "log_add": True}


def answer(task, log_probs):
    decoder = Baseline(task)
    return decoder.answers(decoder.decode([np.ascontiguousarray(log_probs)]))[0][0]


@pytest.mark.parametrize("with_lexicon", [True, False])
def test_numbers_mean_nothing(with_lexicon):
    lexicon = with_separator(Lexicon.spell(WORDS, TOKENS)) if with_lexicon else None
    task = Task(TOKENS, lexicon, None, 0, OPTIONS)
    rng = np.random.default_rng(0)
    for seed in range(20):
        log_probs = np.log(rng.dirichlet(np.ones(len(TOKENS)), 12)).astype(np.float32)
        expected = answer(task, log_probs)
        other, columns = renumbered(task, seed)
        assert [TOKENS[c] for c in columns] == list(other.tokens.tokens)
        found = answer(other, log_probs[:, columns])
        assert found.words == expected.words
        assert [columns[t] for t in found.tokens] == list(expected.tokens)
        assert found.score == pytest.approx(expected.score, abs=1e-9)


def test_homophones_are_a_tie():
    lexicon = Lexicon.spell(["a", "b"], TOKENS, "|")
    lexicon.columns[:] = 1
    task = Task(TOKENS, lexicon, None, 0, OPTIONS)
    log_probs = np.log(np.array([[0.02, 0.9, 0.02, 0.02, 0.04]], np.float32))
    found = {answer(renumbered(task, seed)[0], log_probs[:, renumbered(task, seed)[1]]).words for seed in range(10)}
    assert found == {("a",), ("b",)}
