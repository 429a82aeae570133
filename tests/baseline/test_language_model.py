"""KenLM through its library: scores, unknown words, files and libraries that are not what they should be."""

import errno
import gzip
import itertools
import lzma
import math
import os
import re
import sys

import pytest

from arcbeam import baseline
from arcbeam.core.errors import FormatError, MissingDependencyError
from arcbeam.lm import kenlm as kenlm_module
from tests.baseline.ngrams import NGrams

WORDS = ["a", "b", "c"]


@pytest.fixture(scope="module")
def kenlm():
    return pytest.importorskip("kenlm", reason="the package kenlm is missing: pip install '.[kenlm]'")


def total(model, words, bos, eos):
    context, score = (["<s>"] if bos else []), 0.0
    for word in [*words, *(["</s>"] if eos else [])]:
        score += model.word_score(tuple(context), word)
        context.append(word)
    return score


@pytest.mark.parametrize("order", [2, 3, 4])
def test_scores_are_those_of_the_file(kenlm, tmp_path, order):
    model = NGrams(WORDS, order, seed=order, positive_backoff=True)
    lm = baseline.KenLM(model.write(tmp_path / "lm.arpa"))
    reference = kenlm.Model(str(tmp_path / "lm.arpa"))
    assert lm.order == reference.order == order
    for n in range(4):
        for words in itertools.product([*WORDS, "unheard"], repeat=n):
            for bos, eos in itertools.product([False, True], repeat=2):
                score = lm.score_log10(words, bos=bos, eos=eos)
                assert score == total(model, words, bos, eos)
                assert score == pytest.approx(reference.score(" ".join(words), bos=bos, eos=eos))
                assert lm.score(words, bos=bos, eos=eos) == score * math.log(10), "natural logs"


def test_words(kenlm, tmp_path):
    lm = baseline.KenLM(NGrams(WORDS, 2, seed=0).write(tmp_path / "lm.arpa"))
    assert "a" in lm
    assert "unheard" not in lm
    assert "a\0" not in lm
    assert 3 not in lm
    assert lm.indices(["unheard", "<unk>"]).tolist() == [0, 0]
    assert lm.indices("a b").tolist() == lm.indices(["a", "b"]).tolist()
    assert lm.score("a b") == lm.score(["a", "b"])
    assert re.fullmatch(r"<KenLM of order 2, [0-9,]+ bytes in '.*lm.arpa'>", repr(lm))


@pytest.mark.parametrize(("words", "got"), [(b"a b", "bytes"), (None, "NoneType"), (["a", 1], "int as word 1")])
def test_what_is_no_sentence(kenlm, tmp_path, words, got):
    lm = baseline.KenLM(NGrams(WORDS, 2, seed=0).write(tmp_path / "lm.arpa"))
    with pytest.raises(TypeError, match=f"^words: expected a str or a sequence of str, got {got}$"):
        lm.score(words)


def test_compressed_files(kenlm, tmp_path):
    plain = NGrams(WORDS, 2, seed=0).write(tmp_path / "lm.arpa")
    expected = baseline.KenLM(plain).score("a b c")
    (tmp_path / "lm.arpa.gz").write_bytes(gzip.compress(plain.read_bytes()))
    (tmp_path / "lm.arpa.xz").write_bytes(lzma.compress(plain.read_bytes()))
    for ending in ("gz", "xz"):
        assert baseline.KenLM(tmp_path / f"lm.arpa.{ending}").score("a b c") == expected
    (tmp_path / "cut.gz").write_bytes((tmp_path / "lm.arpa.gz").read_bytes()[:40])
    with pytest.raises(FormatError, match="damaged or cut short"):
        baseline.KenLM(tmp_path / "cut.gz")


def test_it_loads_in_silence(kenlm, tmp_path, capfd):
    baseline.KenLM(NGrams(WORDS, 2, seed=0).write(tmp_path / "lm.arpa"))
    assert capfd.readouterr() == ("", "")


def test_the_extension_serves_where_there_is_no_library(kenlm, tmp_path):
    plain = NGrams(WORDS, 3, seed=0).write(tmp_path / "lm.arpa")
    assert baseline.KenLM(plain, library=kenlm.__file__).score("a b") == baseline.KenLM(plain).score("a b")


def test_bad_files(kenlm, tmp_path):
    for path, error, code in (
        (tmp_path / "none.arpa", FileNotFoundError, errno.ENOENT),
        (tmp_path, IsADirectoryError, errno.EISDIR),
        (os.devnull, OSError, errno.EINVAL),
    ):
        with pytest.raises(error) as caught:
            baseline.KenLM(path)
        assert (caught.value.errno, caught.value.filename) == (code, str(path))
    bad = tmp_path / "bad.arpa"
    bad.write_text("\\data\\\nngram 1=one\n")
    with pytest.raises(FormatError, match=r"bad.arpa: expected 'ngram ORDER=COUNT', got 'ngram 1=one"):
        baseline.KenLM(bad)
    bad.write_text("\\data\\\nngrams=one\n")
    with pytest.raises(FormatError, match=r"bad.arpa: KenLM cannot load it: .*ngrams=one") as caught:
        baseline.KenLM(bad)
    assert "threw" not in str(caught.value)
    bad.write_bytes(b"")
    with pytest.raises(FormatError, match=r"bad.arpa: expected an ARPA or KenLM's .*, got an empty file"):
        baseline.KenLM(bad)
    bad.write_bytes(b"x" * 5000)
    with pytest.raises(FormatError, match=r'KenLM cannot load it: first non-empty line was "x{9,300}\.\.\.$'):
        baseline.KenLM(bad)


def test_bad_libraries(tmp_path):
    plain = NGrams(WORDS, 2, seed=0).write(tmp_path / "lm.arpa")
    text = tmp_path / "libkenlm.so"
    text.write_text("no library")
    message = r"no library can be used \(.*libkenlm.so: .*pip install kenlm"
    with pytest.raises(MissingDependencyError, match=message):
        baseline.KenLM(plain, library=text)
    with pytest.raises(MissingDependencyError, match=r"lacks the symbol _ZN2lm5ngram11LoadVirtual"):
        baseline.KenLM(plain, library=sys.modules["arcbeam.lm._kenlm"].__file__)


def test_no_package(monkeypatch, tmp_path):
    monkeypatch.setattr(kenlm_module, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"needs the package kenlm, which is not installed: pip install"):
        baseline.KenLM(NGrams(WORDS, 2, seed=0).write(tmp_path / "lm.arpa"))
