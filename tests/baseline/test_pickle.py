"""Decoders and language models go to other processes: pickled and copied."""

import copy
import json
import math
import multiprocessing
import os
import pickle

import pytest

import arcbeam
from arcbeam import baseline
from arcbeam.core.errors import FormatError
from arcbeam.graph.token_table import TokenTable
from arcbeam.recipe.lexicon import Lexicon
from tests.baseline.ngrams import NGrams
from tests.baseline.small import LEXICON, TOKENS, saying

SAID = saying("_ab_--ca-b_")
OPTIONS = {"threads": 1, "nbest": 3, "beam_size": 50, "word_score": -0.5, "frame_shift": 0.02, "unk_score": -4.0}
SPELLED = baseline.with_separator(Lexicon.spell([*LEXICON], TokenTable.from_list(TOKENS)))


@pytest.fixture
def lm(tmp_path):
    pytest.importorskip("kenlm", reason="the package kenlm is missing: pip install '.[kenlm]'")
    return baseline.KenLM(NGrams([*LEXICON, *TOKENS[:4]], 3, seed=1).write(tmp_path / "lm.arpa"))


def as_bytes(decoder):
    (found,) = decoder.decode([SAID])
    return [(h.score, h.am_score, h.lm_score_log10, h.tokens.tobytes(), tuple(h.words)) for h in found.nbest]


@pytest.mark.parametrize("lexicon", [LEXICON, SPELLED], ids=["dict", "lexicon"])
@pytest.mark.parametrize("sil", ["auto", None, "a"])
def test_a_pickled_decoder_is_made_anew(lm, lexicon, sil):
    decoder = baseline.LexiconDecoder(lexicon, TOKENS, lm, sil=sil, final_separator=False, **OPTIONS)
    expected = as_bytes(decoder)
    again = pickle.loads(pickle.dumps(decoder))
    assert (again.options, again.words, again.tokens) == (decoder.options, decoder.words, decoder.tokens)
    assert as_bytes(again) == expected
    assert as_bytes(pickle.loads(pickle.dumps(again))) == expected
    assert as_bytes(copy.deepcopy(decoder)) == expected


@pytest.mark.parametrize("sil", ["auto", None, 1])
def test_without_a_lexicon(lm, sil):
    decoder = baseline.LexiconFreeDecoder(TOKENS, lm, sil=sil, blank="<blank>", threads=1, nbest=3)
    assert as_bytes(pickle.loads(pickle.dumps(decoder))) == as_bytes(decoder)
    bare = baseline.LexiconFreeDecoder([*TOKENS[:4], "x"], blank="x", threads=1)
    assert as_bytes(pickle.loads(pickle.dumps(bare))) == as_bytes(bare)


def test_another_process_decodes(lm):
    decoder = baseline.LexiconDecoder(LEXICON, TOKENS, lm, **OPTIONS)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        (found,) = pool.apply(decoder.decode, ([SAID],))
    assert found == decoder.decode([SAID])[0]
    assert found != decoder.decode([SAID[:-1]])[0]


def test_results_travel(lm):
    dead = SAID.copy()
    dead[5:] = -math.inf
    spoiled = SAID.copy()
    spoiled[2, 1] = math.nan
    for decoder in (baseline.LexiconDecoder(LEXICON, TOKENS, lm, **OPTIONS), baseline.LexiconFreeDecoder(TOKENS)):
        for result in decoder.decode([SAID, dead, spoiled, SAID[:0]], errors="return"):
            data = pickle.dumps(result)
            assert len(data) < 1000 * len(result.nbest)
            again = pickle.loads(data)
            assert again == result
            assert str(again.error) == str(result.error)
            assert again.to_dict() == result.to_dict()


def test_as_a_dictionary():
    dead = SAID.copy()
    dead[5:] = -math.inf
    spoiled = SAID.copy()
    spoiled[2, 1] = math.nan
    decoder = baseline.LexiconDecoder(LEXICON, TOKENS, nbest=2, frame_shift=0.02)
    found, died, bad = results = decoder.decode([SAID, dead, spoiled], errors="return")
    values, *_ = all_values = [result.to_dict() for result in results]
    assert list(values) == ["nbest", "complete", "error"]
    assert list(values["nbest"][0]) == [
        "text",
        "words",
        "tokens",
        "collapsed_tokens",
        "timesteps",
        "score",
        "partial_score",
        "am_score",
        "lm_score",
        "lm_score_log10",
    ]
    assert values["nbest"][0]["text"] == found.text
    assert [arcbeam.words.Word(**word) for word in values["nbest"][0]["words"]] == found.words
    assert values["nbest"][1]["score"] == found.nbest[1].score
    assert values["nbest"][0]["collapsed_tokens"] == found.best.collapsed_tokens.tolist()
    assert values["nbest"][0]["timesteps"] == found.best.timesteps.tolist()
    best = died.to_dict()["nbest"][0]
    assert (best["score"], best["partial_score"]) == (None, died.best.partial_score)
    assert bad.to_dict()["error"].endswith("got nan in utterance 2, frame 2, column 1")
    for one in all_values:
        assert json.loads(json.dumps(one, allow_nan=False)) == one


def test_a_language_model_goes_by_its_path(lm, tmp_path, monkeypatch):
    assert copy.copy(lm) is copy.deepcopy(lm) is lm
    monkeypatch.chdir(tmp_path)
    relative = baseline.KenLM("lm.arpa")
    data = pickle.dumps(relative)
    assert len(data) < 500
    monkeypatch.chdir(os.sep)
    assert pickle.loads(data).score("ab cab") == lm.score("ab cab")
    path = tmp_path / "lm.arpa"
    path.write_text(path.read_text().replace("-", "-1", 1))
    with pytest.raises(FormatError, match="expected the language model that was pickled, but the file has been repl"):
        pickle.loads(data)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"lm\.arpa"):
        pickle.loads(data)
