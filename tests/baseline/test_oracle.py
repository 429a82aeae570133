"""The search equals the dictionary-and-loop oracle on random lexicons, language models and options."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcbeam import baseline
from tests.baseline import oracle
from tests.baseline.ngrams import Labelled, NGrams

pytestmark = [  # both on purpose
    pytest.mark.filterwarnings("ignore:lm. it lacks:UserWarning"),
    pytest.mark.filterwarnings("ignore:log_probs. expected:UserWarning"),
]

TOKENS = ["|", "a", "b", "c", "<blank>"]
SILENCE, BLANK = 0, 4
NAMES = ["zero", "one", "two", "three", "four", "five"]

SPELLINGS = st.lists(st.lists(st.sampled_from(TOKENS[:4]), min_size=1, max_size=4), min_size=1, max_size=len(NAMES))
OPTIONS = st.fixed_dictionaries(
    {
        "beam_size": st.sampled_from([1, 2, 5, 500]),
        "beam_size_token": st.sampled_from([None, 1, 3, 5]),
        "beam_threshold": st.sampled_from([0.0, 2.0, 20.0, math.inf]),
        "lm_weight": st.sampled_from([0.0, 0.5, 2.0]),
        "word_score": st.sampled_from([0.0, -1.5, 4.0]),
        "unk_score": st.sampled_from([-math.inf, -math.inf, -3.0]),
        "sil_score": st.sampled_from([0.0, -0.5]),
        "log_add": st.booleans(),
        "smearing": st.sampled_from(["none", "max", "logadd"]),
        "repeat_last_token": st.booleans(),
        "final_separator": st.booleans(),
    }
)
FREE = ("beam_size", "beam_size_token", "beam_threshold", "lm_weight", "sil_score", "log_add")


def random_log_probs(seed, frames, columns=5):
    """Multiples of 1/16, so that ties are frequent; a few values are -inf."""
    rng = np.random.default_rng(seed)
    values = -rng.integers(0, 64, (frames, columns)).astype(np.float32) / 16
    values[rng.random((frames, columns)) < 0.05] = -np.inf
    return values


def check(result, frames, answers, complete, names):
    assert result.complete == complete
    assert len(result.nbest) == len(answers)
    for found, (score, labels, columns) in zip(result.nbest, answers, strict=True):
        assert found.partial_score == score
        assert found.score == (score if len(columns) == frames else -math.inf)
        assert found.tokens.tolist() == columns
        if names is not None:
            assert [w.word for w in found.words] == [names[label] for label in labels]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


def language_model(folder, words, order, seed, positive):
    pytest.importorskip("kenlm", reason="the package kenlm is missing: pip install '.[kenlm]'")
    model = NGrams(words, order, seed, positive)
    return model, baseline.KenLM(model.write(folder / "random.arpa"))


@given(
    SPELLINGS, OPTIONS, st.integers(0, 6), st.integers(0, 2**32 - 1), st.sampled_from([None, 2, 3]), st.booleans(),
    st.booleans(),
)  # fmt: skip
def test_with_a_lexicon(folder, spellings, options, frames, seed, order, positive, with_silence):
    lexicon = {NAMES[i]: spelling for i, spelling in enumerate(spellings)}
    columns = [(tuple(map(TOKENS.index, s)), NAMES.index(word)) for word, s in lexicon.items()]
    names = [*lexicon, "<unk>"]
    model = None
    lm, reference = None, oracle.NoLm()
    if order is not None:
        model, lm = language_model(folder, NAMES[:4], order, seed % 1000, positive)  # it does not know all words
        reference = Labelled(model, names)
    silence = SILENCE if with_silence else None
    decoder = baseline.LexiconDecoder(lexicon, TOKENS, lm, sil=silence, threads=1, nbest=1000, **options)
    log_probs = random_log_probs(seed, frames)
    expected = oracle.Options(blank=BLANK, silence=silence, separator=silence, unknown=len(lexicon), **options)
    answers, complete = oracle.decode(log_probs.astype(float).tolist(), columns, reference, expected)
    check(decoder.decode([log_probs])[0], frames, answers, complete, names)


@given(OPTIONS, st.integers(0, 6), st.integers(0, 2**32 - 1), st.sampled_from([None, 2, 3]), st.booleans())
def test_without_a_lexicon(folder, options, frames, seed, order, with_silence):
    options = {name: options[name] for name in FREE}
    lm, reference = None, oracle.NoLm()
    if order is not None:
        model, lm = language_model(folder, TOKENS[1:3], order, seed % 1000, positive=True)
        reference = Labelled(model, TOKENS)
    sil = "|" if with_silence else None
    decoder = baseline.LexiconFreeDecoder(TOKENS, lm, sil=sil, threads=1, nbest=1000, **options)
    log_probs = random_log_probs(seed, frames)
    expected = oracle.Options(blank=BLANK, silence=SILENCE if with_silence else None, **options)
    answers, complete = oracle.decode(log_probs.astype(float).tolist(), None, reference, expected)
    check(decoder.decode([log_probs])[0], frames, answers, complete, None)
