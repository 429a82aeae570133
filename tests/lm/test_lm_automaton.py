"""Language models as automata against the definition of a back-off model, and against KenLM."""

import bz2
import gzip
import lzma
import math
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from arcbeam import FormatError, LanguageModel
from tests.hypothesis_examples import examples
from tests.lm.index import backoff_state, first_arc, index_columns
from tests.recipe.definitions import LN10, Model, strings
from tests.recipe.test_arpa import GOOD, models


def build(folder, text=GOOD, name="lm.arpa"):
    (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return LanguageModel.build(folder / name, progress=False)


def test_by_hand(tmp_path):
    model = build(tmp_path)
    # States: (), (<s>), (a), (b), (<s> a). (a b) continues nowhere: an arc to it pays its back-off and goes to (b).
    assert (model.order, model.num_states, model.num_arcs) == (3, 5, 8)
    assert model.words == ("<unk>", "a", "b") and model.end_label == 4 and model.unknown_label == 1
    assert model.score("a b") == pytest.approx(-LN10 * (0.25 + 0.125 + 0.0625 + 0.875))
    assert model.score(["a", "b"], bos=False, eos=False) == pytest.approx(-LN10 * (0.5 + 0.375 + 0.0625))
    assert model.score("") == pytest.approx(-LN10 * (0.25 + 0.75))
    assert model.score("", eos=False) == 0.0 and math.copysign(1, model.score("", eos=False)) == 1
    scores = model.score_words("a b zebra")
    assert [(s.word, s.ngram, s.is_unknown) for s in scores] == [
        ("a", 2, False), ("b", 3, False), ("zebra", 1, True), ("</s>", 1, False)
    ]  # fmt: skip
    assert scores[2].log_prob == pytest.approx(-LN10 * (0.375 + 1.5))
    assert "b" in model and "c" not in model and model.label("b") == 3 and model.label("c") is None


@settings(deadline=None, max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])
@given(models())
def test_any_model_scores_by_its_definition(tmp_path_factory, made):
    words, model = made
    built = build(tmp_path_factory.mktemp("lm"), model.arpa())
    for string in strings(words, 4):
        assert -built.score(string) == pytest.approx(model.sentence_cost(string), abs=1e-4), string


def test_wide_blocks_of_the_index(tmp_path):
    """More labels than 16 bits hold, and blocks of states with more arcs, or further back-off states, than others."""
    rng = np.random.default_rng(1)
    count = 70_000
    words = [f"w{i}" for i in range(count)]
    unigrams = [("</s>",), *((w,) for w in words)]
    listed = {("<s>",): -99.0} | {n: -4.0 - i / count for i, n in enumerate(unigrams)}
    wide = [words[i] for i in (5, 6, 30_000)]
    listed |= {(w, other): -3.0 for w in wide for other in words}
    singles = {(words[int(a)], words[int(b)]): -2.0 for a, b in rng.integers(0, count, (2000, 2))}
    listed |= singles | {(a, words[7]): -2.5 for a in words[::5]}
    trigrams = {(a, b, words[9]): -1.0 for a, b in singles} | {("<s>", words[5], words[-1]): -0.5}
    model = Model(listed | trigrams, {(w,): -0.25 for w in words[::2]}, 3)
    built = build(tmp_path, model.arpa())
    columns = built.columns
    assert columns["labels.high"].size and columns["first.wide"].size and columns["backoff.wide"].size
    firsts = [first_arc(built, state) for state in range(built.num_states + 1)]
    assert firsts == sorted(firsts) and firsts[-1] == built.num_arcs
    index = index_columns(firsts, [backoff_state(built, state) for state in range(built.num_states)])
    assert {name: array.tobytes() for name, array in index.items()} == {n: columns[n].tobytes() for n in index}
    picks = [words[i] for i in (0, 5, 6, 7, 9, 30_000, 65_534, 65_535, 65_536, count - 1)]
    sentences = [[*pair, words[9]] for pair in list(singles)[:300]]
    sentences += [[picks[int(i)] for i in rng.integers(0, len(picks), 5)] for _ in range(300)]
    sentences += [[words[int(i)] for i in rng.integers(0, count, 4)] for _ in range(300)]
    for sentence in sentences:
        assert -built.score(sentence) == pytest.approx(model.sentence_cost(sentence), abs=1e-3)
    built.save(tmp_path / "lm")
    assert LanguageModel.load(tmp_path / "lm").score(sentences[0]) == built.score(sentences[0])


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress, lambda data: data])
def test_packed_files_give_the_same_model(tmp_path, pack):
    model, packed = build(tmp_path), build(tmp_path, pack(GOOD.encode()), "packed")
    assert packed.digest == model.digest
    assert {n: a.tobytes() for n, a in packed.columns.items()} == {n: a.tobytes() for n, a in model.columns.items()}


def without(line, count="ngram 1=5"):
    assert line in GOOD
    return GOOD.replace(line, "").replace(count, count[:-1] + str(int(count[-1]) - 1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (without("-0.75\t</s>\n").replace("-0.875\tb </s>", "-0.875\tb b"), "expected a unigram </s>, got none"),
        (GOOD.replace("-99\t<s>\t", "-99\tc\t").replace("<s> a", "c a"), "expected a unigram <s>, got none"),
        (GOOD.replace("<s> a b", "<s> a c"), "line 20: expected words that have a unigram, got 'c'"),
        (GOOD.replace("-0.625\tb", "0.625\tb"), "line 12: expected the log10 of a probability, zero at most"),
        (GOOD.replace("\\end\\\n", ""), r"expected \\end\\, got the end of the file"),
        (GOOD.replace("-0.5\ta", "-0.5\ta\n-0.5\ta").replace("1=5", "1=6"), "every n-gram once"),
        (GOOD.replace("ngram 1=5", "ngram 1=999999999"), "at most 57 n-grams .* 229 bytes .* got 999999999"),
        (b"mmap lm http://kheafield.com/code format version 5\n\0" + bytes(100), "got KenLM's binary language model"),
        (GOOD.encode().replace(b"<unk>", b"\xff"), "the words are not UTF-8"),
    ],
)  # fmt: skip
def test_bad_files(tmp_path, text, message):
    with pytest.raises(FormatError, match=message):
        build(tmp_path, text)


def test_more_words_than_can_be(tmp_path):
    path = tmp_path / "lm.arpa.gz"
    path.write_bytes(gzip.compress(GOOD.replace("ngram 1=5", "ngram 1=999999999").encode()))
    with pytest.raises(FormatError, match="expected at most 268435456 words, got 999999999"):
        LanguageModel.build(path, progress=False, max_bytes="20GiB")


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (GOOD.replace("<unk>", "c"), "there is no <unk>: a word that is not in the model has a probability of 1e-100"),
        (GOOD, "after 5 histories the probabilities do not sum to 1 within 1 %: the worst is 'b' with 0.38"),
        (GOOD.replace("<s> a b", "b a b"), "1 histories that are continued are not listed themselves"),
        (GOOD.replace("b </s>", "</s> b"), "1 n-grams have <s> or </s> in a wrong place and were left out"),
    ],
)
def test_what_is_odd_is_warned_about_and_kept(tmp_path, text, note):
    (tmp_path / "lm.arpa").write_text(text)
    with pytest.warns(UserWarning, match=".") as caught:
        model = LanguageModel.build(tmp_path / "lm.arpa", progress=False)
    assert any(note in str(warning.message) for warning in caught)
    assert any(note in kept for kept in model.notes)
    model.save(tmp_path / "lm")
    assert LanguageModel.load(tmp_path / "lm").notes == model.notes


def test_a_model_that_sums_to_one_is_not_odd(tmp_path):
    third = math.log10(1 / 3)
    text = f"""\\data\\
ngram 1=4
ngram 2=2

\\1-grams:
{third}\t<unk>
-99\t<s>\t{math.log10(3 / 4)}
{third}\t</s>
{third}\ta\t0

\\2-grams:
{math.log10(1 / 2)}\t<s> a
{math.log10(1 / 3)}\ta a

\\end\\
"""
    (tmp_path / "lm.arpa").write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert LanguageModel.build(tmp_path / "lm.arpa", progress=False).notes == ()


def test_no_unk(tmp_path):
    model = build(tmp_path, GOOD.replace("<unk>", "c"))
    assert model.unknown_label == 0
    assert -model.score("a zebra") == pytest.approx(LN10 * (0.25 + 0.5 + 0.125 + 100 + 0.75))


def test_zero_probabilities(tmp_path):
    model = build(tmp_path, GOOD.replace("-0.375\ta b", "-inf\ta b"))
    assert model.score("b a b") == -math.inf
    assert model.score("b a a") > -20


def test_reserved_words(tmp_path):
    model = build(tmp_path)
    for word in ("<s>", "</s>"):
        with pytest.raises(ValueError, match=f"expected words, got {word}"):
            model.score(f"a {word} b")


NOT_SENTENCES = [
    (b"a b", "bytes"),
    (None, "NoneType"),
    (7, "int"),
    ({"a": 1}, "dict"),
    ({"a": 1}.keys(), "dict_keys"),
    ({"a"}, "set"),
    (["a", 1], "int as word 1"),
    ([b"a"], "bytes as word 0"),
]


@pytest.mark.parametrize(("sentence", "got"), NOT_SENTENCES)
def test_what_is_no_sentence(tmp_path, sentence, got):
    model = build(tmp_path)
    for score in (model.score, model.score_words):
        with pytest.raises(TypeError, match=f"^sentence: expected a str or a sequence of str, got {got}$"):
            score(sentence)


def test_sentences_of_other_kinds(tmp_path):
    model = build(tmp_path)
    for sentence in (["a", "b"], ("a", "b"), np.array(["a", "b"]), iter(["a", "b"])):
        assert model.score(sentence) == model.score("a b")
    assert model.score([]) == model.score("")


def test_info_and_pickle(tmp_path):
    model = build(tmp_path)
    info = model.info()
    assert (info.order, info.words, info.ngrams, info.states, info.arcs) == (3, 3, (5, 3, 1), 5, 8)
    assert "3-gram model of 3 words" in str(info) and "5 / 3 / 1" in str(info)
    assert repr(model) == "<LanguageModel of order 3, 3 words, 5 states, 8 arcs>"
    model.save(tmp_path / "lm")
    for one in (model, LanguageModel.load(tmp_path / "lm")):
        assert pickle.loads(pickle.dumps(one)).score("a b a") == model.score("a b a")
    mapped = pickle.dumps(LanguageModel.load(tmp_path / "lm"))
    assert len(mapped) < 1000
    build(tmp_path, GOOD.replace("-0.125", "-0.25")).save(tmp_path / "lm")
    with pytest.raises(FormatError, match="the file was replaced"):
        pickle.loads(mapped)


@pytest.fixture(scope="module")
def demo(demo_data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a real model is not odd
        return LanguageModel.build(demo_data / "novels.3gram.arpa.xz", progress=False)


def compare_with_kenlm(kenlm, built, path, sentences):
    theirs = kenlm.Model(str(path))
    for sentence in sentences:
        scores = built.score_words(sentence)
        wanted = list(theirs.full_scores(sentence))
        assert [(s.ngram, s.is_unknown) for s in scores] == [(n, unknown) for _, n, unknown in wanted], sentence
        assert built.score(sentence) / LN10 == pytest.approx(sum(score for score, _, _ in wanted), abs=1e-4)


def test_kenlm_agrees_on_the_demo_model(demo, demo_data, tmp_path):
    kenlm = pytest.importorskip("kenlm", reason="the package kenlm is not installed")
    path = tmp_path / "demo.arpa"
    path.write_bytes(lzma.decompress((demo_data / "novels.3gram.arpa.xz").read_bytes()))
    sentences = [line.split("\t")[1] for line in (demo_data / "reference.tsv").read_text().splitlines()]
    compare_with_kenlm(kenlm, demo, path, [*sentences, "", "zebra xylophones", "of the the of"])


def test_kenlm_agrees_on_ten_thousand_sentences(arcbeam_data, tmp_path):
    """The 3-gram of 3.4 million n-grams on every 445th line of the text; each has a word that no model knows."""
    kenlm = pytest.importorskip("kenlm", reason="the package kenlm is not installed")
    path = tmp_path / "books.arpa"
    path.write_bytes(lzma.decompress((arcbeam_data / "lm" / "books.3gram.arpa.xz").read_bytes()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        built = LanguageModel.build(path, progress=False)
    with lzma.open(arcbeam_data / "text" / "books.txt.xz", "rt", encoding="utf-8") as text:
        lines = [line.strip() for number, line in enumerate(text) if number % 445 == 7]
    assert len(lines) >= 10_000
    words = [line.split() for line in lines]
    sentences = [" ".join([*w[: len(w) // 2], "xqzzy", *w[len(w) // 2 :]]) for w in words]
    compare_with_kenlm(kenlm, built, path, [*lines, *sentences])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("words", [65_534, 65_563, 65_566])  # one word less in the plane of high bits than n-grams take
def test_labels_of_more_than_16_bits_fit_their_plane(words, tmp_path):
    unigrams = ["<unk>", "<s>", "</s>", *(f"w{i}" for i in range(words))]
    lines = "".join(f"-4.8\t{word}\n" for word in unigrams)
    (tmp_path / "wide.arpa").write_text(f"\\data\\\nngram 1={len(unigrams)}\n\n\\1-grams:\n{lines}\n\\end\\\n")
    model = LanguageModel.build(tmp_path / "wide.arpa")
    assert model.label(f"w{words - 1}") == words + 1
    assert model.score(f"w{words - 1}") == pytest.approx(-9.6 * math.log(10))
