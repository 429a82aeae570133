"""KenLM models that cannot be used, or do not fit: said clearly. And decoders with one that go to other processes."""

import multiprocessing
import os
import pickle
from codecs import BOM_UTF8

import numpy as np
import pytest

from arcbeam import CtcDecoder, FormatError, GraphError, KenLM, MissingDependencyError, baseline
from arcbeam.lm import kenlm as kenlm_module
from tests.baseline.ngrams import NGrams
from tests.decode import kenlm_files
from tests.decode.language_models import language_model as small_model
from tests.decode.test_engine import as_bytes
from tests.decode.test_rescoring_inputs import LOGP, SMALL, WORDS, decode, graph

LN10 = 2.302585092994045684


@pytest.fixture(scope="module", autouse=True)
def kenlm():
    return kenlm_files.need_kenlm()


@pytest.fixture
def model():
    return NGrams(WORDS, 3, seed=2)


@pytest.fixture
def arpa(model, tmp_path):
    return model.write(tmp_path / "lm.arpa")


@pytest.fixture(params=[kenlm_files.PROBING, kenlm_files.TRIE], ids=["probing", "trie"])
def binary(request, arpa, tmp_path):
    return kenlm_files.write_binary(arpa, tmp_path / "lm.binary", request.param)


def test_by_hand(model, arpa):
    scores = [("<s>",), "the"], [("<s>", "the"), "cat"], [("<s>", "the", "cat"), "</s>"]
    large = LN10 * sum(model.word_score(context, word) for context, word in scores)
    found = decode(graph(), large=KenLM(arpa), placement="cpu")
    assert found.text == "the cat"
    assert found.rescoring_score == pytest.approx(large + 3.5, abs=1e-5)
    assert decode(graph(), large=KenLM(arpa)).score == found.score


def test_a_byte_order_mark_is_no_text(arpa, tmp_path):
    marked = tmp_path / "marked.arpa"
    marked.write_bytes(BOM_UTF8 + arpa.read_bytes())
    assert KenLM(marked).score("the cat") == KenLM(arpa).score("the cat")


def test_one_object_serves_the_baseline_and_the_search(arpa):
    lm = KenLM(arpa)
    assert baseline.KenLM is KenLM
    again = baseline.LexiconDecoder({w: ["x"] for w in WORDS}, ["x", "<blank>"], lm, sil=None)
    assert again.decode([np.array([[0.0, -50.0]], np.float32)])[0].text in WORDS
    assert decode(graph(), large=lm).text == "the cat"


def test_words_that_the_model_lacks(tmp_path):
    narrow = NGrams(["the"], 2, seed=1)
    lm = KenLM(narrow.write(tmp_path / "lm.arpa"))
    with pytest.raises(
        GraphError, match=r"language_model: it lacks 1 word \('cat'\) of the graph; unknown_words='unk'"
    ):
        decode(graph(), large=lm)
    assert decode(graph(used=(1, 1)), large=lm).text == "the the"
    the, cat, end = (
        LN10 * narrow.word_score(context, word)
        for context, word in ((("<s>",), "the"), (("<s>", "the"), "cat"), (("<s>", "the", "cat"), "</s>"))
    )
    assert decode(graph(), large=lm, unknown_words="unk").rescoring_score == pytest.approx(
        the + cat + end + 3.5, abs=1e-5
    )
    kept = decode(graph(), large=lm, unknown_words="small").rescoring_score
    assert kept == pytest.approx(the + end + 1.5, abs=1e-5)


def test_names_that_are_no_words(arpa):
    """<s> is no word of any model, and <unk> is one of KenLM's."""

    def with_word(name):
        small = small_model(["the", name], {(): ({"the": 1.0, name: 1.0, "</s>": 0.5}, 0.0)})
        return decode(graph(["the", name], lm_digest=small.digest), large=KenLM(arpa), small=small)

    with pytest.raises(GraphError, match=r"language_model: it lacks 1 word \('<s>'\) of the graph"):
        with_word("<s>")
    assert with_word("<unk>").text == "the <unk>"


def test_a_model_without_unk(tmp_path):
    path = NGrams(["the"], 2, seed=1).write(tmp_path / "lm.arpa")
    lines = [line for line in path.read_text().splitlines() if "<unk>" not in line]
    path.write_text("\n".join(lines).replace("ngram 1=4", "ngram 1=3") + "\n")
    found = decode(graph(), large=KenLM(path), unknown_words="unk")
    assert found.rescoring_score == pytest.approx(-230.2585, abs=20)


def test_files_that_are_no_model(tmp_path, binary):
    with pytest.raises(FileNotFoundError, match=r"none\.binary"):
        KenLM(tmp_path / "none.binary")
    whole = binary.read_bytes()
    (tmp_path / "nothing").touch()
    with pytest.raises(FormatError, match=r"nothing: expected an ARPA or KenLM's .*, got an empty file"):
        KenLM(tmp_path / "nothing")
    for size in (len(whole) * 9 // 10, len(whole) // 2, 100, 40):
        (tmp_path / "cut").write_bytes(whole[:size])
        with pytest.raises(FormatError, match="cut: KenLM cannot load it: "):
            KenLM(tmp_path / "cut")
    (tmp_path / "noise").write_bytes(np.random.default_rng(0).bytes(5000))
    with pytest.raises(FormatError, match="noise: KenLM cannot load it: "):
        KenLM(tmp_path / "noise")


def test_without_the_package(binary, monkeypatch):
    monkeypatch.setattr(kenlm_module, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"needs the package kenlm, which is not installed: pip install"):
        KenLM(binary)


def test_a_file_that_shrinks_or_changes(binary):
    one = CtcDecoder(graph(), language_model=(lm := KenLM(binary)), graph_language_model=SMALL)
    (found,) = one.decode([LOGP])
    text = binary.read_bytes()
    os.truncate(binary, 64)
    for use in (lambda: one.decode([LOGP]), lambda: lm.score("the"), lambda: found.rescoring_score):
        with pytest.raises(
            FormatError, match=rf"the file shrank from {len(text)} to 64 bytes while KenLM had it mapped"
        ):
            use()
    with pytest.raises(FormatError, match="the file shrank from"):  # not: it lacks all words
        CtcDecoder(graph(), language_model=lm, graph_language_model=SMALL)
    os.truncate(binary, 0)
    assert lm.model.score(lm.indices("the cat"), True, True) <= 0  # what is lost reads as zeros: no signal
    binary.write_bytes(text)
    with pytest.raises(FormatError, match="the file was changed while KenLM had it mapped"):
        one.decode([LOGP])


def test_a_file_that_is_replaced(binary, tmp_path):
    one = CtcDecoder(graph(), language_model=KenLM(binary), graph_language_model=SMALL)
    wanted = as_bytes(one.decode([LOGP]))
    (tmp_path / "new").write_bytes(b"another")
    os.replace(tmp_path / "new", binary)
    assert as_bytes(one.decode([LOGP])) == wanted


def test_an_arpa_may_go(arpa):
    one = CtcDecoder(graph(), language_model=KenLM(arpa), graph_language_model=SMALL)
    wanted = as_bytes(one.decode([LOGP]))
    arpa.write_text("")
    assert as_bytes(one.decode([LOGP])) == wanted


def test_the_graphs_own_model_is_ours(arpa):
    with pytest.raises(TypeError, match=r"graph_language_model: expected an arcbeam\.LanguageModel or a path, got Ken"):
        decode(graph(), small=KenLM(arpa))


def test_decoders_travel(binary):
    one = CtcDecoder(graph(), language_model=KenLM(binary), graph_language_model=SMALL, unknown_words="small")
    wanted = as_bytes(one.decode([LOGP]))
    assert as_bytes(pickle.loads(pickle.dumps(one)).decode([LOGP])) == wanted
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert as_bytes(pool.apply(one.decode, ([LOGP],))) == wanted
