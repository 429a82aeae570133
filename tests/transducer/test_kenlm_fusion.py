"""KenLM binaries as n-gram models of tokens: the bytes that the ARPAs give of which they were made."""

import pickle

import numpy as np
import pytest

import arcbeam
from arcbeam import TransducerDecoder
from arcbeam.transducer import ngram_lm
from arcbeam.transducer._boosting_tree import walk
from arcbeam.transducer.ngram_lm import token_automaton
from tests.decode.kenlm_files import ARRAY_TRIE, PROBING, QUANTISED_TRIE, TRIE, need_kenlm, write_binary
from tests.transducer.arpas import random_arpa
from tests.transducer.equality import same
from tests.transducer.networks import random_arrays, random_frames

pytestmark = pytest.mark.filterwarnings("ignore:.*do not sum to 1:UserWarning", "ignore:.*no <unk>:UserWarning")

FRAMES = [random_frames(seed, 60) for seed in (1, 2, 5)]


@pytest.fixture(scope="module", autouse=True)
def kenlm():
    return need_kenlm()


def check_the_same(one, other, seed, tokens, steps=300):
    """Every token's score on a walk through both."""
    rng = np.random.default_rng(seed)
    states = [one.start, other.start]
    longest = 0
    for step in range(steps):
        if step % 20 == 0:
            states = [one.start, other.start] if step % 40 else [0, 0]
        rows = [
            [walk(automaton, state, np.array([token], np.uint32)) for token in range(tokens)]
            for automaton, state in zip((one, other), states, strict=True)
        ]
        scores = [np.array([score[0] for score, _ in row]) for row in rows]
        assert scores[0].tobytes() == scores[1].tobytes(), (step, scores[0] - scores[1])
        # Likely tokens lead to long histories.
        token = int(np.argmax(scores[0] + rng.gumbel(size=tokens)))
        states = [int(row[token][1][0]) for row in rows]
        longest = max(longest, states[0])
    return longest


@pytest.mark.parametrize("kind", [PROBING, TRIE, ARRAY_TRIE])
@pytest.mark.parametrize("order", [2, 3, 5])
@pytest.mark.parametrize("unknown", [True, False])
def test_the_scores_of_the_arpa(tmp_path, kind, order, unknown):
    arpa = random_arpa(tmp_path / "a.arpa", range(9), order, seed=10 * order + kind, unknown=unknown)
    binary = write_binary(arpa, tmp_path / "a.bin", kind)
    of_arpa, of_binary = (token_automaton(path, None, 12, 11) for path in (arpa, binary))
    assert check_the_same(of_arpa, of_binary, kind, 11) > (8 if order == 2 else 10)


def test_a_model_whose_words_are_not_all_tokens(tmp_path):
    """Histories of other words cannot be reached, and their n-grams are left out."""
    arpa = random_arpa(tmp_path / "a.arpa", range(9), 3, per_history=9, word_of=lambda token: f"piece{token}")
    binary = write_binary(arpa, tmp_path / "a.bin", PROBING)
    names = [f"piece{token}" if token % 3 else f"other{token}" for token in range(9)]
    names[0], names[6], names[3] = "<s>", "</s>", "<unk>"
    of_arpa, of_binary = (token_automaton(path, [*names, None], 10, 9) for path in (arpa, binary))
    check_the_same(of_arpa, of_binary, 1, 9)
    assert of_binary.num_states < of_arpa.num_states


def test_a_state_for_every_back_off_weight(tmp_path):
    """As in NeMo, and unlike in a LanguageModel, the weight is charged with the next token, in improper models, too."""
    path = tmp_path / "a.arpa"
    lines = ["\\data\\", "ngram 1=5", "ngram 2=1", "", "\\1-grams:", "-1\t<unk>", "-99\t<s>\t0", "-1\t</s>"]
    lines += ["-1\td\t-0.5", "-0.5\te\t-0.25", "", "\\2-grams:", "-0.125\td e", "", "\\end\\", ""]
    path.write_text("\n".join(lines))
    automaton = token_automaton(write_binary(path, tmp_path / "a.bin", PROBING), None, 3, 2)
    scores, _ = walk(automaton, automaton.start, np.array([0, 1, 1, 0], np.uint32))
    log10 = np.array([-1, -0.125, -0.25 - 0.5, -0.25 - 1])
    np.testing.assert_allclose(scores, log10 * np.log(10), rtol=1e-6)


@pytest.mark.parametrize("durations", [None, [0, 1, 2, 9]])
def test_the_tokens_of_the_arpa(tmp_path, durations):
    arrays = random_arrays(3, tokens=13, blank=12, durations=len(durations or ()))
    arpa = random_arpa(tmp_path / "a.arpa", range(12), 4)
    binary = write_binary(arpa, tmp_path / "a.bin", TRIE)
    options = {"durations": durations, "device": "cpu"}
    plain = TransducerDecoder.from_arrays(arrays, 12, **options).decode(FRAMES)
    options["ngram_lm_alpha"] = 0.9
    expected = TransducerDecoder.from_arrays(arrays, 12, **options, ngram_lm_model=arpa).decode(FRAMES)
    for model in (binary, arcbeam.KenLM(binary), arcbeam.KenLM(arpa)):
        decoder = TransducerDecoder.from_arrays(arrays, 12, **options, ngram_lm_model=model)
        found = decoder.decode(FRAMES)
        for hypothesis, wanted in zip(found, expected, strict=True):
            assert hypothesis.tokens.tolist() == wanted.tokens.tolist()
            assert hypothesis.frames.tolist() == wanted.frames.tolist()
            assert hypothesis.log_probs.tobytes() == wanted.log_probs.tobytes()
        same(pickle.loads(pickle.dumps(decoder)).decode(FRAMES), found)
    assert [h.tokens.tolist() for h in plain] != [h.tokens.tolist() for h in expected]


def test_quantised_values_are_near(tmp_path):
    arpa = random_arpa(tmp_path / "a.arpa", range(12), 3)
    binary = write_binary(arpa, tmp_path / "a.bin", QUANTISED_TRIE)
    of_arpa, of_binary = (token_automaton(path, None, 13, 12) for path in (arpa, binary))
    every = np.arange(12, dtype=np.uint32)
    np.testing.assert_allclose(walk(of_binary, 0, every)[0], walk(of_arpa, 0, every)[0], atol=0.5)


def test_models_that_are_refused(tmp_path, monkeypatch):
    arpa = random_arpa(tmp_path / "a.arpa", range(5), word_of=lambda token: f"word{token}")
    binary = write_binary(arpa, tmp_path / "a.bin", PROBING)
    with pytest.raises(ValueError, match="expected a model of tokens, got one that has 0 of their 12 words"):
        token_automaton(binary, None, 13, 12)
    with pytest.raises(ValueError, match="tokens 0 and 1 have the same word 'word1'"):
        token_automaton(binary, ["word1", "word1", None], 3, 2)
    monkeypatch.setattr(ngram_lm, "MOST_NGRAMS", 5)
    with pytest.raises(ValueError, match="expected at most 5 n-grams of tokens"):
        token_automaton(binary, [f"word{token}" for token in range(5)], 6, 5)
    (tmp_path / "b.bin").write_bytes(binary.read_bytes()[:200])
    with pytest.raises(arcbeam.FormatError, match="KenLM cannot load it"):
        token_automaton(tmp_path / "b.bin", None, 13, 12)
