"""torchaudio's ctc_decoder on the baseline: its arguments, its answers, and what it refuses."""

import math

import numpy as np
import pytest

from arcbeam import baseline
from arcbeam.compat.torchaudio import CTCHypothesis, ctc_decoder
from arcbeam.core.errors import FormatError
from arcbeam.recipe.lexicon import Lexicon
from tests.baseline.ngrams import NGrams

TOKENS = ["-", "|", "a", "b", "c"]
LEXICON = "ab a b |\nab a b b |\nabc a b c |\ncab c a b |\na a |\nb b |\nc c |\n"
WORDS = ["a", "ab", "abc", "b", "c", "cab"]
OPTIONS = (
    {},
    {"nbest": 3, "beam_size": 20},
    {"log_add": True, "word_score": -0.5, "sil_score": 0.25},
    {"unk_score": -2.0, "beam_size_token": 3, "lm_weight": 1.5, "beam_threshold": 12.0},
)
pytestmark = pytest.mark.filterwarnings("ignore:log_probs")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Paths of the lexicon, the tokens, and language models of words and of tokens."""
    folder = tmp_path_factory.mktemp("torchaudio")
    (folder / "lexicon.txt").write_text(LEXICON)
    (folder / "tokens.txt").write_text("".join(f"{token}\n" for token in TOKENS))
    NGrams(WORDS, 3, seed=1).write(folder / "words.arpa")
    NGrams(TOKENS, 3, seed=2).write(folder / "tokens.arpa")
    return {path.name: str(path) for path in folder.iterdir()}


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="torch is not installed")


def log_probs(seed, batch=2, frames=25):
    raw = np.random.default_rng(seed).normal(size=(batch, frames, len(TOKENS))) * 2
    return (raw - np.log(np.exp(raw).sum(axis=-1, keepdims=True))).astype(np.float32)


def searches(files):
    """Lexicon and language model, in all four ways."""
    return (
        (files["lexicon.txt"], None),
        (files["lexicon.txt"], files["words.arpa"]),
        (None, None),
        (None, files["tokens.arpa"]),
    )


@pytest.mark.parametrize("options", OPTIONS)
def test_answers_are_those_of_the_baseline(files, options):
    pytest.importorskip("kenlm", reason="the package kenlm is missing: pip install '.[kenlm]'")
    table = baseline.decoder.TokenTable.from_list(TOKENS, "-")
    searched = {"beam_size": 50, "sil": "|", **options}
    of_tokens = {name: value for name, value in searched.items() if name not in ("word_score", "unk_score")}
    for lexicon, lm in searches(files):
        if lexicon is None:
            expected = baseline.LexiconFreeDecoder(table, lm, **of_tokens)
        else:
            expected = baseline.LexiconDecoder(Lexicon.from_file(lexicon, table), table, lm, **searched)
        decoder = ctc_decoder(lexicon, files["tokens.txt"], lm, **options)
        for found, result in zip(decoder(log_probs(1)), expected.decode(log_probs(1)), strict=True):
            assert len(found) == len(result.nbest) <= decoder.nbest
            for mine, theirs in zip(found, result.nbest, strict=True):
                assert mine.tokens.tolist() == theirs.collapsed_tokens.tolist()
                assert mine.timesteps.tolist() == theirs.timesteps.tolist()
                assert mine.score == theirs.score
                assert mine.words == ([word.word for word in theirs.words] if lexicon else [])


@pytest.mark.parametrize("options", OPTIONS)
def test_best_answers_are_those_of_the_installed_torchaudio(files, torch, options):
    reason = "torchaudio or flashlight-text is missing"
    original = pytest.importorskip("torchaudio.models.decoder", reason=reason, exc_type=(ImportError, OSError))
    pytest.importorskip("flashlight.lib.text.decoder", reason=reason)
    for lexicon, lm in searches(files):
        lm_dict = files["tokens.txt"] if lexicon is None and lm else None  # without it torchaudio mixes up the tokens
        arguments = (lexicon, files["tokens.txt"], lm, lm_dict)
        theirs, mine = (make(*arguments, **options) for make in (original.ctc_decoder, ctc_decoder))
        for seed in range(10):
            emissions, lengths = torch.from_numpy(log_probs(seed)), torch.tensor([25, 17])
            for wanted, found in zip(theirs(emissions, lengths), mine(emissions, lengths), strict=True):
                assert found[0].words == wanted[0].words
                assert torch.equal(found[0].tokens, wanted[0].tokens)
                assert torch.equal(found[0].timesteps, wanted[0].timesteps)


def test_arrays_are_those_of_the_input_s_library(files, torch):
    decoder = ctc_decoder(files["lexicon.txt"], TOKENS, threads=2)
    [[mine]], [[theirs]] = (decoder(as_array(log_probs(2, batch=1))) for as_array in (np.asarray, torch.from_numpy))
    assert (mine.tokens.dtype, mine.timesteps.dtype) == (np.int64, np.int32)
    assert (theirs.tokens.dtype, theirs.timesteps.dtype) == (torch.int64, torch.int32)
    assert theirs.tokens.tolist() == mine.tokens.tolist() and theirs.words == mine.words
    assert decoder.idxs_to_tokens(theirs.tokens) == [TOKENS[column] for column in mine.tokens]
    assert isinstance(mine, CTCHypothesis) and decoder.blank == 0
    with_gradients = torch.from_numpy(log_probs(2, batch=1)).requires_grad_()
    assert decoder(with_gradients)[0][0].tokens.tolist() == mine.tokens.tolist()


def test_frames_in_parts_are_one_utterance(files):
    decoder = ctc_decoder(files["lexicon.txt"], TOKENS, nbest=2)
    whole = log_probs(3, batch=1)
    with pytest.raises(RuntimeError, match="get_final_hypothesis: expected a call of decode_end before it"):
        decoder.get_final_hypothesis()
    with pytest.raises(RuntimeError, match="decode_step: expected a call of decode_begin before it"):
        decoder.decode_step(whole[0])
    for _ in range(2):
        part = whole[0, :10].copy()
        decoder.decode_begin()
        decoder.decode_step(part)
        part[:] = 0  # it has been copied
        decoder.decode_step(whole[0, 10:])
        decoder.decode_end()
        found = [(one.words, one.score, one.tokens.tolist()) for one in decoder.get_final_hypothesis()]
        assert found == [(one.words, one.score, one.tokens.tolist()) for one in decoder(whole)[0]]


def test_an_unknown_word_has_the_given_name(files):
    decoder = ctc_decoder(files["lexicon.txt"], TOKENS, unk_score=1.0, unk_word="<UNK>")
    frames = np.log(np.full((1, 6, 5), 0.05, np.float32))
    frames[0, np.arange(6), [1, 4, 4, 3, 3, 1]] = math.log(0.8)
    assert "<UNK>" in decoder(frames)[0][0].words


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"lm": object()}, r"your own language models \(CTCDecoderLM\) are not supported"),
        ({"blank_token": "_"}, "blank_token: expected one of the 5 tokens, got '_'"),
        ({"sil_token": "<space>"}, "sil_token: expected one of the 5 tokens, got '<space>'"),
        ({"beam_size": 0}, "beam_size: expected a whole number of at least 1, got 0"),
        ({"nbest": 0}, "nbest: expected a whole number of at least 1, got 0"),
        ({"lexicon": None, "lm_dict": "two"}, "lm_dict: expected the 5 tokens in their order, got others in two"),
        ({"tokens": 3}, "tokens: expected a sequence of str, a column each, got int"),
        ({"tokens": "model"}, r"model: expected another kind of text file, got an ARPA .*: give it as lm="),
        ({"tokens": "spelled"}, r"spelled, line 1: expected one token, got 'ab a b \|'"),
    ],
)
def test_wrong_arguments_are_refused(files, tmp_path, monkeypatch, change, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two").write_text("a\nb\n")
    (tmp_path / "spelled").write_text(LEXICON)
    (tmp_path / "model").write_text("\\data\\\nngram 1=3\n")
    with pytest.raises((TypeError, ValueError), match=said):
        ctc_decoder(**{"lexicon": files["lexicon.txt"], "tokens": TOKENS} | change)


@pytest.mark.parametrize(
    ("emissions", "said"),
    [
        (log_probs(0)[0], "emissions: expected three dimensions, batch, frames and columns, got 2"),
        (log_probs(0)[..., :4], "expected 5 columns"),
        (log_probs(0) * np.float32(np.nan), "expected finite values or -inf, got nan"),
        (np.zeros((1, 4, 5), np.int64), "int64"),
    ],
)
def test_wrong_emissions_are_refused(files, emissions, said):
    with pytest.raises((TypeError, ValueError), match=said):
        ctc_decoder(files["lexicon.txt"], TOKENS)(emissions)


def test_a_lexicon_of_other_tokens_is_refused(files, tmp_path):
    (tmp_path / "lexicon.txt").write_text("ab A B |\n")
    with pytest.raises(FormatError, match="line 1"):
        ctc_decoder(tmp_path / "lexicon.txt", TOKENS)


def test_a_lexicon_without_the_silence(files, tmp_path):
    (tmp_path / "lexicon.txt").write_text("ab a b\nb b\n")
    with pytest.warns(
        UserWarning, match=r"no spelling has the silence '\|', with which torchaudio's lexicons end words"
    ):
        ctc_decoder(tmp_path / "lexicon.txt", files["tokens.txt"])
