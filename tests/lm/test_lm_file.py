"""The file of a language model: every kind of damage is found when it is loaded, or when it is used."""

import itertools
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcbeam import FormatError, LanguageModel
from arcbeam.files import section_file
from arcbeam.lm.lm_file import COLUMNS, KIND
from tests.graph import sealing
from tests.hypothesis_examples import examples
from tests.lm.test_lm_automaton import build
from tests.recipe.definitions import Model


@pytest.fixture
def path(tmp_path):
    build(tmp_path).save(tmp_path / "lm")
    return tmp_path / "lm"


def test_a_name_of_another_format_is_warned_of(tmp_path):
    model = build(tmp_path)
    with pytest.warns(
        UserWarning, match=r"^path: save writes a language model of arcbeam, and .*out.arpa is a name of"
    ):
        model.save(tmp_path / "out.arpa")
    assert LanguageModel.load(tmp_path / "out.arpa").info() == model.info()


def test_round_trip(path, tmp_path):
    loaded = LanguageModel.load(path)
    assert loaded.score("a b") == build(tmp_path).score("a b")
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
    assert not loaded.columns["arcs"].flags.owndata
    assert LanguageModel.load(path, in_memory=True).columns["arcs"].flags.owndata


SHRINKS = """
import os, sys
from arcbeam import FormatError, LanguageModel
model, check = LanguageModel.load(sys.argv[1]), LanguageModel.check_file
if sys.argv[2] == "search":
    LanguageModel.check_file = lambda self: None  # as if it shrank after the check
    os.truncate(sys.argv[1], int(sys.argv[3]))
    words = [f"w{i}" for i in range(3000)]
    for begin in range(0, 3000, 10):
        model.score(words[begin : begin + 10])
    LanguageModel.check_file = check
try:
    if sys.argv[2] == "grown again":
        size = os.path.getsize(sys.argv[1])
        os.truncate(sys.argv[1], 4096)
        bytes(model.columns["arcs"].tobytes())
        os.truncate(sys.argv[1], size)
    model.score("w1 w2")
except FormatError as error:
    print(error)
else:
    print("nothing was said")
"""


@pytest.fixture
def large_file(tmp_path):
    """Many pages."""
    words = [f"w{i}" for i in range(3000)]
    unigrams = {("<s>",): -99.0, **{(w,): -3.0 for w in [*words, "</s>"]}}
    model = Model(unigrams | dict.fromkeys(itertools.pairwise(words), -1.0), {}, 2)
    build(tmp_path, model.arpa()).save(tmp_path / "large")
    return tmp_path / "large"


@pytest.mark.parametrize(
    ("how", "said"),
    [
        *((("search", size), f"to {size} bytes") for size in ("0", "4096", "16384", "40960")),
        (("grown again",), "while"),
    ],
)
def test_a_file_that_shrinks_does_not_end_the_process(large_file, how, said):
    """During a search, or for a while."""
    done = subprocess.run([sys.executable, "-c", SHRINKS, str(large_file), *how], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert said in done.stdout and "while it was mapped" in done.stdout


SIGNALS = """
import faulthandler, mmap, os, signal, sys
from arcbeam import FormatError, LanguageModel
path, case = sys.argv[1:]
if case == "handled":
    signal.signal(signal.SIGBUS, lambda *_: print("handled"))
first = LanguageModel.load(path)
if case == "between":
    faulthandler.enable()
model = LanguageModel.load(path)
if case in ("other", "between"):
    with open(path + ".other", "w+b") as file:
        file.truncate(10_000)
        data = mmap.mmap(file.fileno(), 0)
        file.truncate(0)
    data[5000]
for _ in range(2):
    os.kill(os.getpid(), signal.SIGBUS)
os.truncate(path, 4096)
model.columns["arcs"].tobytes()
print("guarded")
"""


@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="AddressSanitizer handles the signal itself")
@pytest.mark.parametrize(
    ("case", "code", "out", "reports"),
    [
        ("sent", -signal.SIGBUS, "", 0),
        ("other", -signal.SIGBUS, "", 0),
        ("handled", 0, "handled\nhandled\nguarded\n", 0),
        ("between", -signal.SIGBUS, "", 1),
    ],
)
def test_signals_that_are_not_ours(large_file, case, code, out, reports):
    command = [sys.executable, "-c", SIGNALS, str(large_file), case]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (code, out)
    assert done.stderr.count("Bus error") == reports


def forged(path, about=(), **columns):
    """A file of these columns with checksums that fit."""
    arrays, known, _ = section_file.read(path, KIND)
    arrays = {name: np.array(a) for name, a in arrays.items()}
    for name, change in columns.items():
        name = name.replace("_", ".")
        arrays[name] = change(arrays[name])
    section_file.write(path, KIND, arrays, known | dict(about))


def put(index, value):
    def change(array):
        array = array.copy()
        array[index] = value
        return array

    return change


def wide(*values):
    """For a table of one wide block."""
    return lambda array: np.array([*values, *[values[-1]] * (32 - len(values))], array.dtype)


@pytest.mark.parametrize(
    ("about", "columns", "message"),
    [
        ({"start": 5}, {}, "the start is state 5 of 5"),
        ({"num_labels": 3}, {}, "num_labels is 3, expected 4"),
        ({"high_bits": 3}, {}, "high_bits is 3"),
        ({"high_bits": 1}, {}, "'labels.high' has 0 elements, expected 1"),
        ({"ngrams": ["x"]}, {}, "expected numbers as ngrams"),
        ({}, {"arcs": put(0, (5, 0.0))}, "state 0, arc 0 leads to state 5 of 5"),
        ({}, {"arcs": put(4, (0, np.nan))}, "the weight of state 1, arc 0 is not a cost"),
        ({}, {"arcs": put(4, (0, -np.inf))}, "the weight of state 1, arc 0 is not a cost"),
        ({}, {"backoff_weights": put(1, np.nan)}, "the back-off weight of state 1 is not a cost"),
        ({}, {"labels_low": put(2, 2)}, "state 0, arc 2 has the label 2 after 2"),
        ({}, {"labels_low": put(3, 9)}, "state 0, arc 3 has the label 9 after 3"),
        ({}, {"first_offsets": put(2, 7)}, "state 1, arc 2 has the label 2 after 4"),
        ({}, {"first_offsets": put(1, 3)}, "state 0 has the arcs 0 to 3"),
        ({}, {"first_offsets": put(5, 7)}, "the arcs of the last state end at 7; expected 8"),
        ({}, {"first_offsets": lambda a: a[:-1]}, "'first.offsets' has 5 elements, expected 6"),
        ({}, {"first_bases": put(0, 9)}, "first arcs: the base of block 0 is 9, which is beyond the end"),
        ({}, {"first_bases": put(0, 1 << 31)}, "first arcs: the base of block 0 is 0, which is beyond the end"),
        ({}, {"first_wide": wide(0)}, "first arcs: the table of wide blocks has 32 numbers, expected 0"),
        ({}, {"first_bases": put(0, 1 << 31), "first_wide": wide(0, 4, 9, 6, 7, 8)}, "state 1 has the arcs 4 to 9"),
        ({}, {"first_bases": put(0, 1 << 31), "first_wide": wide(0, 4, 5, 3, 7, 8)}, "state 2 has the arcs 5 to 3"),
        ({}, {"backoff_steps": put(0, 3 << 4)}, "state 2 backs off to state 3"),
        ({}, {"backoff_bases": put(0, 5)}, "state 1 backs off to state 5"),
        ({}, {"backoff_bases": put(0, 7)}, "back-off states: the base of block 0 is 7, which is beyond the end"),
        ({}, {"backoff_bases": put(0, 1 << 31), "backoff_wide": wide(0, 0, 2)}, "state 2 backs off to state 2"),
        ({}, {"lengths": put(1, 9)}, "the lengths of histories do not ascend"),
        ({}, {"words_ends": put(0, 0)}, "the words do not fit their text"),
        ({}, {"words_text": put(0, 0xFF)}, "the words are not UTF-8"),
        ({}, {"first_bases": lambda a: a[:0]}, "'first.bases' has 0 elements, expected 1"),
    ],
)  # fmt: skip
def test_forged_files(path, about, columns, message):
    forged(path, about, **columns)
    with pytest.raises(FormatError, match=message):
        LanguageModel.load(path)


@pytest.mark.parametrize("name", COLUMNS)
def test_a_section_left_out(path, name):
    arrays, about, _ = section_file.read(path, KIND)
    section_file.write(path, KIND, {n: a for n, a in arrays.items() if n != name}, about)
    with pytest.raises(FormatError, match=f"section '{name}' is missing"):
        LanguageModel.load(path)


@settings(deadline=None, max_examples=examples(300))
@given(st.data())
def test_damage_with_checksums_that_fit_is_harmless(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("lm") / "lm"
    build(path.parent).save(path)
    raw = path.read_bytes()
    sections = [place for name, place in sealing.sections(raw).items() if place[1] and name != "about"]
    for _ in range(data.draw(st.integers(1, 4))):
        offset, size = data.draw(st.sampled_from(sections))
        raw = sealing.poke(raw, offset + data.draw(st.integers(0, size - 1)), bytes([data.draw(st.integers(0, 255))]))
    path.write_bytes(sealing.reseal(raw))
    try:
        model = LanguageModel.load(path)
    except FormatError:
        return
    for sentence in ("", "a", "a b b a", "zebra a <unk> b"):
        model.score(sentence)
        model.score_words(sentence, bos=False)
