import gzip
import itertools
import math
from codecs import BOM_UTF8

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import LanguageModel, TokenTable
from arcbeam.core.errors import FormatError
from arcbeam.lm._arpa import ArpaReader
from arcbeam.recipe.language_model import read_language_model
from arcbeam.recipe.word_lists import read_words, words_of_arpa
from tests.hypothesis_examples import examples
from tests.recipe.definitions import Model, follow, strings

GOOD = """made by hand
\\data\\
ngram 1=5
ngram 2=3
ngram 3=1

\\1-grams:
-1.5\t<unk>
-99\t<s>\t-0.25
-0.75\t</s>
-0.5\ta\t-0.125
-0.625\tb\t-0.375

\\2-grams:
-0.25\t<s> a\t-0.5
-0.375\ta b\t-0.0625
-0.875\tb </s>

\\3-grams:
-0.125\t<s> a b

\\end\\
"""


def read(tmp_path, text, words=("a", "b"), **options):
    path = tmp_path / "lm.arpa"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    options.setdefault("backoff_label", len(words) + 1)
    return read_language_model(path, words, **options)


def test_by_hand(tmp_path):
    model = read(tmp_path, GOOD)
    g = model.acceptor
    # States: (), (<s>), (b), (<s> a), in the order of their length; (a b) continues nowhere, so it backs off to (b).
    # 'a' is continued by 'a b'.
    assert g.num_states == 5
    ln10 = math.log(10.0)
    assert follow(g, 3, []) == pytest.approx(ln10 * (0.25 + 0.75))
    assert follow(g, 3, [1]) == pytest.approx(ln10 * (0.25 + 0.5 + 0.125 + 0.75))
    assert follow(g, 3, [1, 2]) == pytest.approx(ln10 * (0.25 + 0.125 + 0.0625 + 0.875))
    assert follow(g, 3, [2, 1]) == pytest.approx(ln10 * (0.25 + 0.625 + 0.375 + 0.5 + 0.125 + 0.75))
    assert model.words_in_lm.tolist() == [True, True]
    assert model.tally == {
        "ngrams": (5, 3, 1),
        "unknown_words": 1,
        "unknown_ngrams": 1,
        "misplaced_ngrams": 0,
        "added_ngrams": 0,
        "words_without_unigram": 0,
        "has_sentence_end": True,
    }


def test_scale_and_word_insertion_penalty(tmp_path):
    plain = follow(read(tmp_path, GOOD).acceptor, 3, [2, 1])
    scaled = follow(read(tmp_path, GOOD, scale=0.5, word_insertion_penalty=-0.75).acceptor, 3, [2, 1])
    assert scaled == pytest.approx(0.5 * plain - 1.5)


def test_words_outside_are_counted(tmp_path):
    model = read(tmp_path, GOOD, words=("b", "c"))
    assert model.tally["unknown_words"] == 2
    assert model.tally["unknown_ngrams"] == 2 + 2 + 1
    assert model.tally["words_without_unigram"] == 1
    assert model.words_in_lm.tolist() == [True, False]
    assert follow(model.acceptor, 3, [1]) == pytest.approx(math.log(10.0) * (0.25 + 0.625 + 0.875))


def test_no_end_of_sentence(tmp_path):
    model = read(tmp_path, "\\data\\\nngram 1=1\n\\1-grams:\n-0.5\ta\n\\end\\\n")
    assert not model.tally["has_sentence_end"]
    assert follow(model.acceptor, 3, [1, 1]) == pytest.approx(math.log(10.0))


def test_words_that_python_takes_for_space(tmp_path):
    words = ("\x85", "\xa0", "\u3000")
    text = "\\data\\\nngram 1=4\n\\1-grams:\n" + "".join(f"-1\t{w}\n" for w in (*words, "</s>")) + "\\end\\\n"
    assert read(tmp_path, text, words=words).words_in_lm.all()


def changed(old, new):
    assert old in GOOD
    return GOOD.replace(old, new, 1)


BAD = {
    "fewer n-grams than the header says": (changed("ngram 1=5", "ngram 1=6"), 14, "expected 6 n-grams of order 1.* 5"),
    "more": (changed("ngram 2=3", "ngram 2=2"), 17, "expected 2 n-grams of order 2.*got another"),
    "no probability": (changed("-0.5\ta\t-0.125", "a\t-0.125"), 11, "expected the log10 of a probability, got 'a'"),
    "a field too many": (changed("-0.125\t<s> a b", "-0.125\t<s> a b 0 0"), 20, "3 words.*got 6 fields"),
    "a field too few": (changed("-0.375\ta b\t-0.0625", "-0.375\ta"), 16, "2 words.*got 2 fields"),
    "NaN": (changed("-0.625\tb", "nan\tb"), 12, "expected the log10 of a probability, got 'nan'"),
    "NaN back-off": (changed("b\t-0.375", "b\tnan"), 12, "expected the log10 of a back-off weight, got 'nan'"),
    "inf": (changed("-0.625\tb", "inf\tb"), 12, "got 'inf'"),
    "probability above one": (changed("-0.625\tb", "0.625\tb"), 12, "zero at most, got '0.625'"),
    "no number": (changed("-0.625\tb", "-0.6x25\tb"), 12, "got '-0.6x25'"),
    "no end": (changed("\\end\\\n", ""), 21, r"expected \\end\\, got the end of the file"),
    "no data": ("hello\nworld\n", 2, r"expected \\data\\, got the end of the file"),
    "empty": ("", None, "expected an ARPA model, got an empty file"),
    "ends in the header": ("\\data\\\nngram 1=4\n", 2, r"expected \\end\\, got the end"),
    "more than there is room for": ("\\data\\\nngram 1=5\n", 2, "at most 4 n-grams of order 1, which .* 17 bytes"),
    "no header": ("\\data\\\n\\1-grams:\n", 2, "expected 'ngram 1=COUNT'"),
    "strange header": (changed("ngram 2=3", "ngram 2:3"), 4, "expected 'ngram ORDER=COUNT'.*got 'ngram 2:3'"),
    "order left out": (changed("ngram 2=3", "ngram 3=3"), 4, "expected the count of order 2"),
    "section left out": (changed("\\2-grams:", "\\3-grams:"), 14, r"expected \\2-grams:, got '\\3-grams:'"),
    "n-gram between": (changed("\\1-grams:\n", ""), 7, "expected 'ngram ORDER=COUNT' or .1-grams:, got '-1.5"),
    "duplicate": (changed("-0.875\tb </s>", "-0.875\ta b"), 17, "every n-gram once.*line 16 gives"),
    "duplicate unigram": (changed("-0.625\tb\t-0.375", "-0.625\ta\t-0.375"), 12, "every n-gram once.*line 11 gives"),
    "no unigram": (changed("-0.625\tb\t-0.375", "-0.625\tc\t-0.375"), 16, "words that have a unigram, got 'b'"),
    "back-off in the highest order": (changed("-0.125\t<s> a b", "-0.125\t<s> a b\t-1"), 20, "no back-off weight"),
    "a huge count": (changed("ngram 1=5", "ngram 1=99999999999"), 3, "fewer than 2"),
    "an endless line": ("\\data\\\nngram 1=" + "1" * (1 << 21), 2, "lines of at most 1048576 bytes"),
}  # fmt: skip


@pytest.mark.parametrize("text,line,message", BAD.values(), ids=BAD.keys())
def test_bad_file_says_where(tmp_path, text, line, message):
    with pytest.raises(FormatError, match=message) as caught:
        read(tmp_path, text)
    # A count that is wrong shows where the section ends; a duplicate when it is sorted, with its own line.
    where = "" if line is None else f", line {line}"
    assert f"lm.arpa{where}: " in str(caught.value)


def test_a_byte_order_mark_is_no_text(tmp_path):
    text = GOOD.partition("\n")[2].encode()  # from \\data\\ on
    assert read(tmp_path, BOM_UTF8 + text).digest == read(tmp_path, text).digest
    path = tmp_path / "marked.arpa.gz"
    path.write_bytes(gzip.compress(BOM_UTF8 + text))
    assert words_of_arpa(path) == ["a", "b"]
    assert LanguageModel.build(path, progress=False).order == 3
    path.write_bytes(BOM_UTF8 + text)
    for other in (read_words, TokenTable.read):
        with pytest.raises(FormatError, match="got an ARPA language model"):
            other(path)


def test_kenlm_binary_is_named(tmp_path):
    with pytest.raises(FormatError, match="expected an ARPA file, got a KenLM binary"):
        read(tmp_path, b"mmap lm http://kheafield.com/code format version 5\n\0" + bytes(100))


@pytest.mark.parametrize("data,name", [(b"\x28\xb5\x2f\xfd....", "zstd"), (b"PK\x03\x04....", "zip")])
def test_other_packers_are_named(tmp_path, data, name):
    with pytest.raises(FormatError, match=f"got {name}"):
        read(tmp_path, data)


def test_misplaced_sentence_marks_are_counted(tmp_path):
    model = read(tmp_path, changed("-0.875\tb </s>", "-0.875\tb <s>"))
    assert model.tally["misplaced_ngrams"] == 1
    model = read(tmp_path, changed("-0.875\tb </s>", "-0.875\t</s> b\t-1"))
    assert model.tally["misplaced_ngrams"] == 1


def test_reserved_or_double_words():
    for words in ([b"a", b"a"], [b"</s>"]):
        with pytest.raises(ValueError, match="every word once"):
            ArpaReader(words, "x", 0)


@st.composite
def models(draw):
    """Models of any shape: contexts and suffixes may be missing, as other tools' pruning leaves them."""
    words = ["a", "b", "c"][: draw(st.integers(1, 3))]
    order = draw(st.integers(1, 4))
    weight = st.integers(-640, 0).map(lambda n: n / 128)
    listed = {("<s>",): -99.0, **{(w,): draw(weight) for w in [*words, "</s>"]}}
    for length in range(2, order + 1):
        ngram = st.tuples(
            st.sampled_from(["<s>", *words]),
            *[st.sampled_from(words)] * (length - 2),
            st.sampled_from([*words, "</s>"]),
        )
        chosen = draw(st.lists(ngram, min_size=1, max_size=8, unique=True))
        listed.update({n: draw(weight) for n in chosen})
    able = [n for n in listed if len(n) < order and n[-1] != "</s>"]
    backoffs = {n: draw(st.integers(-256, 64)) / 128 for n in able if draw(st.booleans())}
    return words, Model(listed, backoffs, order)


@settings(deadline=None, max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])
@given(models(), st.sampled_from([0, 99]))
def test_any_model_is_followed_exactly(made, backoff_label):
    words, model = made
    text = model.arpa().encode()
    reader = ArpaReader([w.encode() for w in words], "model", len(text))
    for begin in range(0, len(text), 7):
        reader.feed(text[begin : begin + 7])
    reader.finish()
    offsets, targets, labels, costs, finals, start = reader.automaton(1.0, 0.0, backoff_label)
    from arcbeam.recipe.arrays import ArcArrays

    sources = np.repeat(np.arange(len(finals)), np.diff(offsets))
    for first, last in itertools.pairwise(offsets):
        assert (np.diff(labels[first:last].astype(int)) > 0).all()
    g = ArcArrays(sources, targets, labels, labels, costs, finals, start)
    for string in strings(range(1, len(words) + 1), 4):
        expected = model.sentence_cost([words[i - 1] for i in string])
        assert follow(g, backoff_label, string) == pytest.approx(expected, abs=1e-3), string
