"""Decoders and language models go to other processes: pickled and copied."""

import copy
import multiprocessing
import os
import pickle

import pytest

from arcbeam import baseline
from arcbeam.build.lexicon import Lexicon
from arcbeam.errors import FormatError
from arcbeam.symbols import TokenTable
from tests.baseline.ngrams import NGrams
from tests.baseline.small import LEXICON, TOKENS, saying

SAID = saying("_ab_--ca-b_")
OPTIONS = {"threads": 1, "nbest": 3, "beam_size": 50, "word_score": -0.5, "frame_shift": 0.02, "unk_score": -4.0}
SPELLED = baseline.with_separator(Lexicon.spell([*LEXICON], TokenTable.from_list(TOKENS)))


@pytest.fixture
def lm(tmp_path):
    pytest.importorskip("kenlm", reason="the package kenlm is missing: pip install 'arcbeam[kenlm]'")
    return baseline.KenLM(NGrams([*LEXICON, *TOKENS[:4]], 3, seed=1).write(tmp_path / "lm.arpa"))


def as_bytes(decoder):
    (found,) = decoder.decode([SAID])
    return [(h.score, h.am_score, h.lm_score, h.tokens.tobytes(), tuple(h.words)) for h in found.nbest]


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
