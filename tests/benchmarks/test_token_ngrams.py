"""N-gram models of tokens: probabilities, what is left out of them, and the files."""

import itertools
import re

import pytest

from arcbeam import LanguageModel
from data import token_ngrams
from data.token_ngrams import write_arpa

TEXTS = [[1, 2, 3, 1, 2], [2, 2, 1], [3]]


def read(path):
    """n-gram to (probability, back-off or None), of an ARPA file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    found = {}
    for line in lines[lines.index("\\1-grams:") :]:
        if "\t" in line:
            log, words, *back = line.split("\t")
            found[tuple(words.split())] = (10 ** float(log), 10 ** float(back[0]) if back else None)
    return found


def probability(model, history, word):
    if (*history, word) in model:
        return model[*history, word][0]
    return (model[history][1] or 1.0 if history in model else 1.0) * probability(model, history[1:], word)


@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("prune", [(), (1,), (0, 1, 2)])
def test_a_model_of_tokens_has_probabilities(tmp_path, order, prune):
    path = tmp_path / "tokens.arpa"
    numbers = write_arpa(path, [*TEXTS * 3, [1, 2, 2, 2]], order, 5, prune=prune)
    assert len(numbers) == order and numbers[0] == 5 + 3
    found = LanguageModel.build(path, progress=False)  # warns where they do not sum to 1
    assert found.info().order == order
    model = read(path)
    assert [sum(len(ngram) == n for ngram in model) for n in range(1, order + 1)] == numbers
    words = [*map(token_ngrams.word, range(5)), "</s>", "<unk>"]
    for n in range(order):
        for history in itertools.product([*words[:4], "<s>"], repeat=n):
            assert sum(probability(model, history, word) for word in words) == pytest.approx(1, abs=1e-5)
    for ngram in model:  # what engines expect
        assert len(ngram) == 1 or {ngram[1:], ngram[:-1]} <= model.keys()


def test_a_model_worked_by_hand(tmp_path):
    path = tmp_path / "tokens.arpa"
    assert write_arpa(path, [[0, 1], [0, 0]], 2, 2) == [5, 5]
    model = read(path)
    # Unigrams: tokens 0 and 1 have 3 and 1, and 1 more each; </s> 2; <unk> 1: 9 in all.
    assert model["t0",][0] == pytest.approx(4 / 9, rel=1e-5) and model["t1",][0] == pytest.approx(2 / 9, rel=1e-5)
    # After token 0: 1 0 1 </s> ... of three, each once; half of each count goes to unigrams.
    assert model["t0",][1] == pytest.approx(0.5, rel=1e-5)
    assert model["t0", "t1"][0] == pytest.approx(0.5 / 3 + 0.5 * 2 / 9, rel=1e-5)
    assert model["<s>", "t0"][0] == pytest.approx(1.5 / 2 + 0.25 * 4 / 9, rel=1e-5)
    assert write_arpa(path, [[0, 1], [0, 0]], 2, 2, prune=(1,)) == [5, 1]
    pruned = read(path)
    assert [ngram for ngram in pruned if len(ngram) == 2] == [("<s>", "t0")]
    assert pruned["t0",][1] == 1 and pruned["<s>",][1] == pytest.approx(0.25, rel=1e-5)


def test_names_and_limits(tmp_path):
    path = tmp_path / "tokens.arpa"
    write_arpa(path, TEXTS, 2, 5, lambda token: chr(100 + token))
    assert ("e", "f") in read(path)
    with pytest.raises(ValueError, match=re.escape("got 2 and [0, 1]")):
        write_arpa(path, TEXTS, 2, 2**40, prune=(1,))
    with pytest.raises(ValueError, match="no 2-gram occurs more than 5 times in the texts"):
        write_arpa(path, TEXTS, 2, 5, prune=(5,))
    with pytest.raises(ValueError, match=re.escape("limits that rise, got 3 and [0, 2, 1]")):
        write_arpa(path, TEXTS, 3, 5, prune=(2, 1))
