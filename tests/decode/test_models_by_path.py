"""Language models and lexicons are taken by path, too: which kind a file is, its first bytes say."""

import gzip

import pytest

from arcbeam import CtcDecoder, FormatError, Graph, KenLM, LanguageModel, baseline
from arcbeam.lm.loading import as_kenlm, as_language_model, as_large_model
from tests.baseline import small
from tests.baseline.ngrams import NGrams
from tests.decode import kenlm_files
from tests.decode.test_engine import as_bytes
from tests.decode.test_rescoring_inputs import LOGP, WORDS, graph


@pytest.fixture
def arpa(tmp_path):
    return NGrams(WORDS, 2, seed=2).write(tmp_path / "lm.arpa")


@pytest.fixture
def files(arpa, tmp_path):
    """Files of one model, by kind, and the type that each is loaded as."""
    kenlm_files.need_kenlm()
    LanguageModel.build(arpa, progress=False).save(tmp_path / "lm.saved")
    (tmp_path / "lm.arpa.gz").write_bytes(gzip.compress(arpa.read_bytes()))
    return {
        arpa: LanguageModel,
        tmp_path / "lm.arpa.gz": LanguageModel,
        tmp_path / "lm.saved": LanguageModel,
        kenlm_files.write_binary(arpa, tmp_path / "lm.binary", kenlm_files.PROBING): KenLM,
    }


def test_a_decoder_loads_its_models_by_their_kind(files, arpa):
    small_model = LanguageModel.build(arpa, progress=False)
    one = graph(lm_digest=small_model.digest)
    for path, kind in files.items():
        large = KenLM(path) if kind is KenLM else as_language_model("one", path)
        objects = CtcDecoder(one, language_model=large, graph_language_model=small_model)
        for given in (path, str(path)):
            paths = CtcDecoder(one, language_model=given, graph_language_model=str(arpa))
            assert type(paths._search.rescoring.large) is kind
            assert as_bytes(paths.decode([LOGP])) == as_bytes(objects.decode([LOGP]))


def test_what_is_no_model(files, arpa, tmp_path):
    binary = tmp_path / "lm.binary"
    with pytest.raises(FormatError, match=r"lm\.binary: graph_language_model: expected an ARPA or a file of Language"):
        as_language_model("graph_language_model", binary)
    with pytest.raises(FormatError, match=r"lm\.saved: lm: expected an ARPA or KenLM's binary format, got a file of"):
        as_kenlm("lm", tmp_path / "lm.saved")
    graph().save(tmp_path / "graph")
    for load in (as_language_model, as_large_model):
        with pytest.raises(FormatError, match="graph"):
            load("language_model", tmp_path / "graph")
        with pytest.raises(IsADirectoryError):
            load("language_model", tmp_path)
        with pytest.raises(TypeError, match=r"language_model: expected an arcbeam\.LanguageModel.* got bytes"):
            load("language_model", b"lm.arpa")
    with pytest.raises(TypeError, match=r"lm: expected an arcbeam\.KenLM, a path or None, got LanguageModel"):
        as_kenlm("lm", LanguageModel.load(tmp_path / "lm.saved"))


def test_the_baseline_takes_paths(tmp_path):
    kenlm_files.need_kenlm()
    lexicon, tokens = tmp_path / "lexicon.txt", tmp_path / "tokens.txt"
    lexicon.write_text("".join(f"{word} {' '.join(spelled)}\n" for word, spelled in small.LEXICON.items()))
    tokens.write_text("\n".join(small.TOKENS) + "\n")
    arpa = NGrams([*small.LEXICON], 2, seed=1).write(tmp_path / "lm.arpa")
    options = {"sil": "|", "threads": 1, "nbest": 3}
    objects = baseline.LexiconDecoder(small.LEXICON, small.TOKENS, KenLM(arpa), **options)
    paths = baseline.LexiconDecoder(lexicon, tokens, str(arpa), **options)
    batch = [small.saying("ab|_-cab|"), small.saying("abc|")]
    assert paths.decode(batch) == objects.decode(batch)
    letters = NGrams(small.TOKENS[:4], 2, seed=1).write(tmp_path / "letters.arpa")
    objects = baseline.LexiconFreeDecoder(small.TOKENS, KenLM(letters), threads=1)
    assert baseline.LexiconFreeDecoder(tokens, letters, threads=1).decode(batch) == objects.decode(batch)


def test_a_graph_is_built_of_a_model(arpa, tmp_path):
    pytest.importorskip("kaldifst", reason="the package kaldifst is missing: pip install '.[build]'")
    kenlm_files.need_kenlm()
    tokens = ["<blank>", "a", "b", "c"]
    (tmp_path / "lexicon.txt").write_text("the a\ncat b c\nsat c a\n")

    def build(lm):
        built = Graph.build(tokens, tmp_path / "lexicon.txt", lm, progress=False)
        return [getattr(built, name).tobytes() for name in ("states", "targets", "columns", "words", "finals")]

    model = LanguageModel.build(arpa, progress=False)
    wanted = build(arpa)
    assert build(model) == build(KenLM(arpa)) == wanted
    model.save(tmp_path / "lm.saved")
    for lm in (
        LanguageModel.load(tmp_path / "lm.saved"),
        KenLM(kenlm_files.write_binary(arpa, tmp_path / "lm.binary", kenlm_files.PROBING)),
    ):
        with pytest.raises(ValueError, match=r"lm: expected a model that .* made.*; give the ARPA's path"):
            build(lm)
    NGrams(WORDS, 2, seed=3).write(arpa)
    with pytest.raises(FormatError, match=f"expected the language model {model.digest}, got .* was replaced since"):
        build(model)
