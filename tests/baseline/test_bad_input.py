"""What a user can get wrong with the baseline: the right exception and message, and a decoder that goes on."""

import dataclasses
import math
import warnings

import numpy as np
import pytest

from arcbeam import baseline
from arcbeam.graph.token_table import TokenTable
from arcbeam.recipe.lexicon import Lexicon
from tests.baseline.ngrams import NGrams
from tests.baseline.small import LEXICON, TOKENS, saying

GOOD = saying("_ab_c-b_")


def spoiled(value, dtype=np.float32):
    logp = GOOD.astype(dtype)
    logp[5, 3] = value
    return logp


INPUTS = {
    "nan": ([GOOD, spoiled(np.nan)], None, ValueError, r"values or -inf, got nan in utterance 1, frame 5, column 3"),
    "inf": ([spoiled(np.inf)], None, ValueError, r"got inf in utterance 0, frame 5, column 3"),
    "inf in float16": ([spoiled(np.inf, np.float16)], None, ValueError, r"got inf in utterance 0, frame 5, column 3"),
    "too narrow": ([GOOD[:, :4]], None, ValueError, r"log_probs\[0\]: expected 5 columns, got 4"),
    "length beyond": (GOOD[None], [9], ValueError, r"lengths\[0\]: expected 0 to 8 frames, got 9"),
    "share of one": (GOOD, 1.0, TypeError, r"lengths: .* got float64 \(are they shares of the longest"),
    "bool of one": (GOOD, True, TypeError, r"lengths: expected integers, got bool$"),
    "text": ("log_probs.npy", None, TypeError, r"expected an array .* got str"),
}

OPTIONS = {
    "beam_size 0": ({"beam_size": 0}, ValueError, r"beam_size: expected a whole number of at least 1, got 0"),
    "beam_size real": ({"beam_size": 5.0}, TypeError, r"beam_size: .* got float"),
    "beam_size bool": ({"beam_size": True}, TypeError, r"beam_size: .* got bool"),
    "beam_size none": ({"beam_size": None}, TypeError, r"beam_size: .* got NoneType"),
    "beam_size_token 0": ({"beam_size_token": 0}, ValueError, r"beam_size_token: .* got 0"),
    "beam_threshold": (
        {"beam_threshold": -1.0},
        ValueError,
        r"beam_threshold: expected a number of at least 0, got -1",
    ),
    "beam_threshold nan": ({"beam_threshold": math.nan}, ValueError, r"beam_threshold: .* got nan"),
    "lm_weight": ({"lm_weight": -1.0}, ValueError, r"lm_weight: expected a number of at least 0, got -1.0"),
    "lm_weight inf": ({"lm_weight": math.inf}, ValueError, r"lm_weight: .* got inf"),
    "lm_weight huge": ({"lm_weight": 1e308}, ValueError, r"lm_weight: .* range of float32, 0 to 3.4e\+38, got 1e\+308"),
    "lm_weight of 400 digits": (
        {"lm_weight": 10**400},
        ValueError,
        r"lm_weight: expected a number of at least 0, got an integer of 1,329 bits",
    ),
    "word_score of 400 digits": ({"word_score": -(10**400)}, ValueError, r"word_score: .* an integer of 1,329 bits"),
    "word_score huge": ({"word_score": -1e308}, ValueError, r"word_score: .* range of float32"),
    "unk_score huge": ({"unk_score": -1e308}, ValueError, r"unk_score: .* range of float32"),
    "beam_threshold of 400 digits": ({"beam_threshold": 10**400}, ValueError, r"beam_threshold: .* 1,329 bits"),
    "beam_size of 5000 digits": ({"beam_size": 10**5000}, ValueError, r"beam_size: .* an integer of 16,610 bits"),
    "frame_shift in ms": ({"frame_shift": 20.0}, ValueError, r"frame_shift: expected at most 1 second, got 20.0"),
    "lm_weight text": ({"lm_weight": "2"}, TypeError, r"lm_weight: .* got str"),
    "word_score": ({"word_score": math.nan}, ValueError, r"word_score: expected a number that is finite, got nan"),
    "unk_score": ({"unk_score": math.inf}, ValueError, r"unk_score: expected a number below infinity, got inf"),
    "sil_score": ({"sil_score": -math.inf}, ValueError, r"sil_score: expected a number that is finite, got -inf"),
    "log_add": ({"log_add": 1}, TypeError, r"log_add: expected True or False, got int"),
    "smearing": ({"smearing": "sum"}, ValueError, r"smearing: expected one of none, max, logadd, got 'sum'"),
    "criterion": ({"criterion": "asg"}, ValueError, r"criterion: expected one of ctc, got 'asg'"),
    "nbest": ({"nbest": 0}, ValueError, r"nbest: .* got 0"),
    "frame_shift": ({"frame_shift": 0.0}, ValueError, r"frame_shift: expected a number of seconds above 0, got 0.0"),
    "threads": ({"threads": 0}, ValueError, r"threads: .* got 0"),
    "repeat_last_token": ({"repeat_last_token": None}, TypeError, r"repeat_last_token: expected True or False"),
    "unknown": (
        {"beamsize": 3},
        TypeError,
        r"unknown option beamsize: expected one of lexicon, tokens, lm, blank, sil, beam_",
    ),
    "sil beyond": ({"sil": 5}, ValueError, r"sil: expected a column from 0 to 4, or None, got 5"),
    "sil negative": ({"sil": -1}, ValueError, r"sil: expected a column from 0 to 4, or None, got -1"),
    "sil the blank": ({"sil": 4}, ValueError, r"sil: expected a column other than the blank's, or None, got 4"),
    "sil unknown": ({"sil": "x"}, ValueError, r"sil: expected one of the 5 tokens, got 'x'"),
    "sil real": ({"sil": 0.0}, TypeError, r"sil: expected a token, its column, or None, got float"),
    "sil of 5000 digits": ({"sil": 10**5000}, ValueError, r"sil: expected a column from 0 to 4, .* 16,610 bits"),
    "blank real": ({"blank": 4.0}, TypeError, r"blank: expected a token, its column, or None, got float"),
    "blank bool": ({"blank": True}, TypeError, r"blank: .* got bool"),
    "blank unknown": ({"blank": "x"}, ValueError, r"the blank 'x' is not among the 5 tokens"),
    "lm": ({"lm": 3}, TypeError, r"lm: expected an arcbeam.KenLM, a path or None, got int"),
    "lm not there": ({"lm": "lm.arpa"}, FileNotFoundError, r"No such file or directory: 'lm.arpa'"),
}

LEXICONS = {
    "no such token": ({"ab": ["a", "x"]}, ValueError, r"lexicon: expected one of the 5 tokens, got 'x' in 'ab'"),
    "the blank": ({"a": ["a"], "ab": ["a", "<blank>"]}, ValueError, r"tokens, got the blank in the word 'ab'"),
    "no tokens": ({"a": ["a"], "ab": []}, ValueError, r"lexicon: expected tokens, got none for the word 'ab'"),
    "no words": ({}, ValueError, r"lexicon: expected words, got none"),
    "a path": ("lexicon.txt", FileNotFoundError, r"No such file or directory: 'lexicon.txt'"),
    "not even words": (3, TypeError, r"lexicon: expected a Lexicon, its path, or tokens by word, got int$"),
    "a list": (["ab"], TypeError, r"lexicon: expected a Lexicon, its path, or tokens by word, got list"),
    "a word that is a number": ({1: ["a"]}, TypeError, r"lexicon: expected words as str, got int \(1\)"),
    "a word of bytes": ({b"ab": ["a"]}, TypeError, r"lexicon: expected words as str, got bytes"),
    "a text": ({"ab": "a b |"}, TypeError, r"lexicon: expected a sequence of tokens for 'ab', got str"),
    "a set": ({"ab": {"a", "b"}}, TypeError, r"lexicon: expected a sequence of tokens for 'ab', got set"),
    "no spelling": ({"a": ["a"], "ab": None}, TypeError, r"a sequence of tokens for 'ab', got NoneType"),
    "columns": ({"ab": [1, 2]}, TypeError, r"lexicon: expected tokens as str, got int \(1\) in 'ab'"),
    "two spellings": ({"ab": [["a"], ["b"]]}, TypeError, r"tokens as str, got list \(\['a'\]\) in 'ab'"),
    "other tokens": (
        Lexicon.spell(["a", "ad"], TokenTable.from_list(["<blank>", "a", "b", "c", "e", "f", "d"])),
        ValueError,
        r"lexicon: expected columns below 5, got 6 in the word 'ad'; was it made for other tokens\?",
    ),
}


SPELLED = Lexicon.spell(["ab", "cab"], TokenTable.from_list(TOKENS))
MISSHAPEN = {
    "too few offsets": (
        {"offsets": SPELLED.offsets[:-1]},
        ValueError,
        "2 spellings, 2 offsets and 5 columns do not fit",
    ),
    "offsets beyond": ({"offsets": np.array([0, 2, 9])}, ValueError, "3 offsets and 5 columns do not fit together"),
    "offsets that fall": ({"offsets": np.array([0, 9, 5])}, ValueError, "expected ascending offsets"),
    "words beyond": ({"word_index": np.array([0, 2])}, ValueError, "the 2 words to be counted from 0, got 2"),
    "a negative column": ({"columns": np.array([1, 2, 3, 1, -2])}, ValueError, "below 5, got -2 in the word 'cab'"),
    "columns that are real": ({"columns": SPELLED.columns.astype(float)}, TypeError, "columns: expected integers"),
    "nested": ({"columns": SPELLED.columns[None]}, TypeError, r"columns: .* one dimension, got uint16 \[1, 5\]"),
}

TOKEN_LISTS = {
    "none": (None, r"tokens: expected a sequence of str, a column each, got NoneType"),
    "a vocabulary": ({"a": 0, "<blank>": 1}, r"tokens: expected a sequence of str, a column each, got dict"),
    "a set": ({"a", "<blank>"}, r"tokens: .* got set"),
    "numbers": (["a", 1], r"tokens: expected a sequence of str, got int for column 1"),
}


def decoders():
    return {
        "lexicon": baseline.LexiconDecoder(LEXICON, TOKENS, sil="|", threads=2),
        "free": baseline.LexiconFreeDecoder(TOKENS, threads=2),
    }


@pytest.mark.parametrize("kind", ["lexicon", "free"])
@pytest.mark.parametrize("name", INPUTS)
def test_bad_log_probs(kind, name):
    log_probs, lengths, error, message = INPUTS[name]
    decoder = decoders()[kind]
    before = decoder.decode([GOOD])[0]
    with pytest.raises(error, match=message):
        decoder.decode(log_probs, lengths)
    after = decoder.decode([GOOD])[0]
    assert (after.text, after.score) == (before.text, before.score)


@pytest.mark.parametrize("kind", ["lexicon", "free"])
def test_an_utterance_that_is_none_costs_its_own_result_alone(kind):
    decoder = decoders()[kind]
    alone = decoder.decode([GOOD, GOOD[:3]])
    found = decoder.decode([GOOD, spoiled(np.nan), GOOD[:3], spoiled(np.inf)], errors="return")
    assert [found[0], found[2]] == alone
    assert [result.error is None for result in found] == [True, False, True, False]
    for i, value in ((1, "nan"), (3, "inf")):
        bad = found[i]
        expected = f"log_probs: expected finite values or -inf, got {value} in utterance {i}, frame 5, column 3"
        assert isinstance(bad.error, ValueError) and str(bad.error) == expected
        assert (bad.text, bad.words, bad.complete, len(bad.nbest)) == ("", [], False, 1)
        assert (bad.score, bad.best.partial_score, bad.best.am_score) == (-math.inf, -math.inf, -math.inf)
        assert len(bad.best.tokens) == 0
    with pytest.raises(TypeError, match="expected float32 or float16"):
        decoder.decode([GOOD.astype(int)], errors="return")
    with pytest.raises(ValueError, match="errors: expected 'raise' or 'return', got 'ignore'"):
        decoder.decode([GOOD], errors="ignore")


@pytest.mark.parametrize("name", OPTIONS)
def test_bad_options(name):
    options, error, message = OPTIONS[name]
    with pytest.raises(error, match=message):
        baseline.LexiconDecoder(LEXICON, TOKENS, **options)


def test_options_of_words_are_none_without_a_lexicon():
    with pytest.raises(TypeError, match="unknown option word_score: expected one of tokens, lm, blank, sil, beam_size"):
        baseline.LexiconFreeDecoder(TOKENS, word_score=1.0)


@pytest.mark.parametrize("name", LEXICONS)
def test_bad_lexicons(name):
    lexicon, error, message = LEXICONS[name]
    with pytest.raises(error, match=message):
        baseline.LexiconDecoder(lexicon, TOKENS)


@pytest.mark.parametrize("name", MISSHAPEN)
def test_lexicons_of_arrays_that_do_not_fit(name):
    changed, error, message = MISSHAPEN[name]
    with pytest.raises(error, match=message):
        baseline.LexiconDecoder(dataclasses.replace(SPELLED, **changed), TOKENS)


@pytest.mark.parametrize("name", TOKEN_LISTS)
def test_bad_tokens(name):
    tokens, message = TOKEN_LISTS[name]
    for make in (baseline.LexiconFreeDecoder, lambda t: baseline.LexiconDecoder(LEXICON, t)):
        with pytest.raises(TypeError, match=message):
            make(tokens)


def test_weights_at_their_limits_give_no_nan(tmp_path):
    pytest.importorskip("kenlm", reason="the package kenlm is missing: pip install '.[kenlm]'")
    lm = baseline.KenLM(NGrams([*LEXICON], 2, seed=0).write(tmp_path / "lm.arpa"))
    for options in ({"lm_weight": 3e38}, {"word_score": -3e38}, {"word_score": 3e38}, {"sil_score": 3e38}):
        (found,) = baseline.LexiconDecoder(LEXICON, TOKENS, lm, sil="|", nbest=3, **options).decode([GOOD])
        assert all(math.isfinite(h.score) for h in found.nbest)


def test_a_language_model_of_other_words(tmp_path):
    pytest.importorskip("kenlm", reason="the package kenlm is missing: pip install '.[kenlm]'")
    lm = baseline.KenLM(NGrams([word.upper() for word in LEXICON], 2, seed=0).write(tmp_path / "lm.arpa"))
    message = r"it lacks 4 of the 4 words \('ab', 'abc', 'cab', 'a'\), which .* unknown word; it has them in upper"
    with pytest.warns(UserWarning, match=message) as caught:
        baseline.LexiconDecoder(LEXICON, TOKENS, lm)
    assert [w.filename for w in caught] == [__file__]
    with pytest.warns(UserWarning, match=r"it lacks 4 of the 4 tokens \('\|', 'a', 'b', 'c'\), which score"):
        baseline.LexiconFreeDecoder(TOKENS, lm)
    half = baseline.KenLM(NGrams(["ab", "a"], 2, seed=0).write(tmp_path / "half.arpa"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        baseline.LexiconDecoder(LEXICON, TOKENS, half)


def test_options_of_numpy_are_kept_as_those_of_python():
    given = {
        "beam_size": np.int64(20), "beam_threshold": np.float32(30.5), "log_add": np.True_,
        "frame_shift": np.float16(0.5), "word_score": np.float32(0.1), "final_separator": np.False_,
    }  # fmt: skip
    decoder = baseline.LexiconDecoder(LEXICON, TOKENS, sil="|", **given)
    kept = {name: getattr(decoder.options, name) for name in given}
    assert repr(kept) == repr({name: value.item() for name, value in given.items()})
    assert len(decoder.decode([GOOD])) == 1


def test_no_blank():
    with pytest.raises(ValueError, match="blank: expected a token with a usual name of the blank, got none; name"):
        baseline.LexiconDecoder({"a": ["a"]}, ["a", "b"])
    assert baseline.LexiconDecoder({"a": ["a"]}, ["a", "b"], blank="b").tokens.blank == 1


def test_no_separator():
    lexicon = Lexicon.spell(["a"], TokenTable.from_list(["a", "<blank>"]))
    with pytest.raises(ValueError, match="expected a separator that is a token of its own, got none"):
        baseline.with_separator(lexicon)


@pytest.mark.parametrize("kind", ["lexicon", "free"])
def test_what_people_have(kind):
    """One utterance, float64, a mask of its frames, logits."""
    decoder = decoders()[kind]
    wanted = decoder.decode([GOOD, GOOD[:3]])
    assert [decoder.decode(GOOD), decoder.decode(GOOD, 3)] == wanted
    assert decoder.decode(GOOD.astype(np.float64)) == wanted[0]
    assert decoder.decode(np.stack([GOOD] * 2), np.arange(8) < np.array([[8], [3]])) == wanted
    assert str(wanted[0]) == str(wanted[0].best) == wanted[0].text != ""
    logits = decoder.decode(GOOD + 2.5, logits=True)
    assert logits.text == wanted[0].text and logits.score != wanted[0].score + 2.5 * len(GOOD)
    with pytest.raises(TypeError, match="logits: expected"):
        decoder.decode(GOOD, logits=1)
