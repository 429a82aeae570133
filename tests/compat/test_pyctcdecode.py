"""The decoder under pyctcdecode's names: its answers, its labels, its folders, and what it refuses."""

import json
import lzma
import pickle
import shutil
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from arcbeam.compat import pyctcdecode as ours
from arcbeam.core.errors import FormatError, InputError, MissingDependencyError
from arcbeam.lm import kenlm as kenlm_module
from tests.baseline.ngrams import NGrams
from tests.compat import pyctcdecode_reference as reference
from tests.compat.pyctcdecode_reference import WORDS

LETTERS = [" ", "a", "b", "c", ""]
needs_kenlm = pytest.mark.usefixtures("kenlm")


@pytest.fixture(scope="module")
def kenlm():
    return pytest.importorskip("kenlm", reason="the package kenlm is missing: pip install '.[kenlm]'")


@pytest.fixture(scope="module")
def original():
    reason = "pyctcdecode is missing: pip install --no-deps pyctcdecode pygtrie"
    return pytest.importorskip("pyctcdecode", reason=reason)


@pytest.fixture
def arpa(tmp_path):
    return str(NGrams(WORDS, 3, seed=3).write(tmp_path / "3.arpa"))


@pytest.fixture(autouse=True)
def quiet():
    """Seven words are few, which is what the warnings say."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unigrams: ")
        yield


def logits(seed=0, frames=30, columns=5, scale=2.0):
    return np.random.default_rng(seed).normal(size=(frames, columns)) * scale


def spelled(text, labels=LETTERS, sure=9.0):
    """Logits that read the symbols of a text, `-` for the blank."""
    found = np.zeros((len(text), len(labels)))
    found[np.arange(len(text)), [labels.index(letter.replace("-", "")) for letter in text]] = sure
    return found


def stateless(beams):
    return [(text, frames, acoustic, score) for text, _, frames, acoustic, score in beams]


@needs_kenlm
def test_answers_are_those_of_pyctcdecode(tmp_path):
    wanted = json.loads(reference.FILE.read_text(encoding="utf-8"))
    cases = reference.cases()
    assert len(wanted) == len(cases) == 24 and max(map(len, wanted)) == 20
    for case, answers in zip(cases, wanted, strict=True):
        found = reference.decoder_of(ours, case, tmp_path).decode_beams(case.logits, **case.options)
        assert reference.texts(found[:20]) == answers, case


@needs_kenlm
@pytest.mark.filterwarnings("ignore")
def test_scores_are_those_of_the_installed_pyctcdecode(original, tmp_path):
    """To the last bit: both add the same numbers in the same order."""
    for case in reference.cases():
        pair = [reference.decoder_of(module, case, tmp_path) for module in (original, ours)]
        theirs, mine = (stateless(one.decode_beams(case.logits, **case.options)) for one in pair)
        assert mine == theirs, case
        for decoder in pair:
            decoder.reset_params(alpha=1.25, beta=-0.5, unk_score_offset=-3.0, lm_score_boundary=False)
        options = {"beam_width": 7, "beam_prune_logp": -6.0, "token_min_logp": -3.0, "hotword_weight": 4.5}
        theirs, mine = (stateless(one.decode_beams(case.logits, **case.options | options)) for one in pair)
        assert mine == theirs, case
        texts = [one.decode(case.logits, **options) for one in pair]
        assert texts[0] == texts[1]


@needs_kenlm
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["probabilities", "log-probs", "float32", "silence", "nothing"])
def test_inputs_are_taken_as_pyctcdecode_takes_them(original, arpa, kind):
    given = logits(5)
    probabilities = np.exp(given) / np.exp(given).sum(axis=1, keepdims=True)
    given = {
        "probabilities": probabilities,
        "log-probs": np.log(probabilities),
        "float32": given.astype(np.float32).astype(np.float64),
        "silence": spelled("- --  "),
        "nothing": given[:0],
    }[kind]
    pair = [module.build_ctcdecoder(LETTERS, arpa, WORDS) for module in (original, ours)]
    theirs, mine = (stateless(one.decode_beams(given)) for one in pair)
    assert mine == theirs
    if kind == "float32":
        assert stateless(pair[1].decode_beams(given.astype(np.float32)))[0][0] == mine[0][0]


@needs_kenlm
def test_a_batch_is_its_utterances_with_any_number_of_threads(arpa):
    batch = [logits(seed, frames=5 * seed) for seed in range(8)]
    one, three = (ours.build_ctcdecoder(LETTERS, arpa, WORDS, threads=threads) for threads in (1, 3))
    beams = [one.decode_beams(utterance, hotwords=["abba"]) for utterance in batch]
    assert [one.decode_beams(utterance, hotwords=["abba"]) for utterance in batch] == beams
    for decoder in (one, three):
        found = decoder.decode_beams_batch(object(), batch, hotwords=["abba"])
        assert found == [stateless(utterance) for utterance in beams]
        assert [type(utterance[0]) for utterance in found] == [ours.OutputBeamMPSafe] * len(batch)
    assert three.decode_batch(None, np.stack(batch[1:2] * 3)) == [one.decode(batch[1])] * 3
    three.cleanup()
    assert three.decode(batch[2]) == one.decode(batch[2])


@needs_kenlm
def test_answers_have_names_and_places(arpa):
    """Transformers' pipeline reads places 0 and 2."""
    decoder = ours.build_ctcdecoder(["a", "b", "c", "|", "<pad>"], arpa, WORDS)
    [first, *_] = decoder.decode_beams(spelled("ab- -cc ", ["a", "b", "c", " ", ""]), beam_width=100)
    assert first == tuple(first) and first[0] == first.text == "ab c"
    assert first[2] == first.text_frames == [("ab", (0, 2)), ("c", (5, 7))]
    assert first[-2:] == (first.logit_score, first.lm_score) and isinstance(first.last_lm_state, ours.LMState)
    assert ours.build_ctcdecoder(LETTERS).decode_beams(spelled("ab"))[0].last_lm_state is None


@needs_kenlm
def test_an_utterance_in_parts_goes_on_with_the_state(arpa, tmp_path):
    decoder = ours.build_ctcdecoder(LETTERS, arpa, WORDS)
    whole, parts = spelled("ab c"), (spelled("ab"), spelled("c"))
    decoder.reset_params(lm_score_boundary=False)
    both = decoder.decode_beams(whole)[0]
    first = decoder.decode_beams(parts[0])[0]
    second = decoder.decode_beams(parts[1], lm_start_state=first.last_lm_state)[0]
    alone = decoder.decode_beams(parts[1])[0]
    assert second.last_lm_state == both.last_lm_state and second.lm_score != alone.lm_score
    stored = pickle.loads(pickle.dumps(first.last_lm_state))
    assert decoder.decode_beams(parts[1], lm_start_state=stored)[0] == second
    other = NGrams(WORDS, 3, seed=4).write(tmp_path / "other.arpa")
    with pytest.raises(ValueError, match="lm_start_state: expected a state of this language model, got that of anoth"):
        ours.build_ctcdecoder(LETTERS, other, WORDS).decode(parts[1], lm_start_state=stored)
    with pytest.raises(TypeError, match="lm_start_state: expected the last_lm_state of an answer, got int"):
        decoder.decode(parts[1], lm_start_state=3)


def test_hotwords_are_for_one_call():
    decoder = ours.build_ctcdecoder(LETTERS)
    unsure = np.stack([spelled("ab")[i] * 0.02 + spelled("ac")[i] * 0.03 for i in range(2)]) * 20
    before = decoder.decode(unsure)
    assert before == "ac" and decoder.decode(unsure, hotwords=["ab"]) == "ab" and decoder.decode(unsure) == before
    assert decoder.decode(unsure, hotwords=["ab"], hotword_weight=0.01) == "ac"
    with pytest.raises(TypeError, match=r"hotwords: expected a list of words, got str; write \['ab'\]"):
        decoder.decode(unsure, hotwords="ab")
    with pytest.warns(UserWarning, match="hotwords: the labels cannot spell 'Ab'; write hotwords in the labels' case"):
        assert decoder.decode(unsure, hotwords=["Ab"]) == "ac"


@pytest.mark.parametrize(
    ("labels", "wanted", "is_bpe"),
    [
        ([" ", "a"], [" ", "a", ""], False),
        (["<pad>", "<unk>", "|", "A"], ["", "⁇", " ", "A"], False),
        (["_", "a", " "], ["", "a", " "], False),
        (["_", "a", " ", ""], ["_", "a", " ", ""], False),
        (["[PAD]", "[UNK]", "[CLS]", "##a", "a"], ["", "▁⁇▁", "[CLS]", "a", "▁a"], True),
        (["<unk>", "▁", "▁a", "b"], ["▁⁇▁", "▁", "▁a", "b", ""], True),
    ],
)
def test_labels(labels, wanted, is_bpe):
    alphabet = ours.Alphabet.build_alphabet(labels)
    assert (alphabet.labels, alphabet.is_bpe) == (wanted, is_bpe)
    again = ours.Alphabet.loads(alphabet.dumps())
    assert (again.labels, again.is_bpe) == (wanted, is_bpe)


def test_a_lone_mark_is_the_beginning_of_a_word():
    labels = ["▁", "a", "▁b", ""]
    decoder = ours.build_ctcdecoder(labels)
    found = decoder.decode_beams(9.0 * np.eye(4)[[0, 1, 1, 3, 0, 1, 2]])[0]
    assert (found.text, found.text_frames) == ("a a b", [("a", (0, 3)), ("a", (4, 6)), ("b", (6, 7))])


def test_a_piece_that_ends_a_word():
    decoder = ours.build_ctcdecoder(["▁⁇▁", "▁a", "a", ""])
    found = decoder.decode_beams(9.0 * np.eye(4)[[1, 0, 3, 2, 2]])[0]
    assert (found.text, found.text_frames) == ("a ⁇ a", [("a", (0, 1)), ("⁇", (1, 2)), ("a", (3, 5))])


@needs_kenlm
@pytest.mark.filterwarnings("ignore")
def test_folders_go_both_ways(original, arpa, tmp_path):
    for number, (writer, reader) in enumerate([(ours, original), (original, ours), (ours, ours)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        written = writer.build_ctcdecoder(LETTERS, arpa, WORDS[:4], alpha=0.75, lm_score_boundary=False)
        written.save_to_dir(str(folder))
        read = reader.BeamSearchDecoderCTC.load_from_dir(str(folder))
        assert stateless(read.decode_beams(logits(7))) == stateless(written.decode_beams(logits(7)))


@needs_kenlm
def test_a_saved_decoder_is_the_same(arpa, tmp_path, monkeypatch):
    decoder = ours.build_ctcdecoder(LETTERS, arpa, WORDS[:4], beta=0.25)
    decoder.save_to_dir(tmp_path / "saved")
    beams = decoder.decode_beams(logits(8))
    assert pickle.loads(pickle.dumps(decoder)).decode_beams(logits(8)) == beams
    asked = []

    def snapshot_download(*arguments, **options):
        asked.append((arguments, options))
        return tmp_path / "saved"

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(snapshot_download=snapshot_download))
    loaded = ours.BeamSearchDecoderCTC.load_from_hf_hub("some/one", cache_dir="here", local_files_only=True)
    assert loaded.decode_beams(logits(8)) == beams
    assert asked == [(("some/one",), {"cache_dir": "here", "local_files_only": True})]
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingDependencyError, match=r"load_from_hf_hub needs .*pip install huggingface_hub"):
        ours.BeamSearchDecoderCTC.load_from_hf_hub("some/one")

    (tmp_path / "saved" / "language_model" / "more.txt").touch()
    with pytest.raises(FormatError, match=r"expected attrs.json, unigrams.txt and the file of one model, got .*more"):
        ours.BeamSearchDecoderCTC.load_from_dir(tmp_path / "saved")
    shutil.move(tmp_path / "saved" / "language_model", tmp_path / "saved" / "other")
    with pytest.raises(FormatError, match=r"expected alphabet.json, and language_model if there is more"):
        ours.BeamSearchDecoderCTC.load_from_dir(tmp_path / "saved")


@needs_kenlm
@pytest.mark.parametrize("name", ["3.arpa.xz", "lm.lm"])
def test_a_saved_model_may_have_any_name(arpa, tmp_path, name):
    text = Path(arpa).read_bytes()
    (tmp_path / name).write_bytes(lzma.compress(text) if name.endswith(".xz") else text)
    decoder = ours.build_ctcdecoder(LETTERS, str(tmp_path / name), WORDS[:4])
    decoder.save_to_dir(tmp_path / "saved")
    loaded = ours.BeamSearchDecoderCTC.load_from_dir(tmp_path / "saved")
    assert loaded.decode_beams(logits(9)) == decoder.decode_beams(logits(9))


@needs_kenlm
def test_models_are_taken_in_every_form(kenlm, arpa):
    alphabet = ours.Alphabet.build_alphabet(LETTERS)
    given = (arpa, kenlm.Model(arpa), ours.LanguageModel(arpa).kenlm)
    models = [ours.LanguageModel(one, WORDS, 0.5, 1.5) for one in given]
    assert {model.order for model in models} == {3}
    beams = [ours.BeamSearchDecoderCTC(alphabet, model).decode_beams(logits(9)) for model in models]
    assert beams[0] == beams[1] == beams[2]
    assert beams[0] == ours.build_ctcdecoder(LETTERS, arpa).decode_beams(logits(9))  # with the words of the ARPA


@needs_kenlm
def test_weights(arpa):
    decoder = ours.build_ctcdecoder(LETTERS, arpa, WORDS)
    before = decoder.decode_beams(logits(4))
    for wrong in (
        {"alpha": np.nan},
        {"alpha": 1e300},
        {"beta": np.inf},
        {"unk_score_offset": "much"},
        {"lm_score_boundary": 1},
    ):
        with pytest.raises((TypeError, ValueError), match="expected a"):
            decoder.reset_params(**wrong)
    assert decoder.decode_beams(logits(4)) == before
    decoder.reset_params(alpha=2)
    assert decoder.decode_beams(logits(4)) != before
    decoder._language_model.alpha = np.nan
    with pytest.raises(ValueError, match="alpha: expected a number that is finite, got nan"):
        decoder.decode(logits(4))
    ours.build_ctcdecoder(LETTERS).reset_params(alpha=2.0)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda d: d.decode(logits(columns=4)), "expected 5 columns, one for each label, got 4: without a label for"),
        (lambda d: d.decode(logits(frames=7).T), "got 7: are they [columns, frames]? transpose them"),
        (lambda d: d.decode(logits()[0]), "logits: expected two dimensions, frames and columns, got 1"),
        (lambda d: d.decode(logits() * np.nan), "expected finite values, and not -inf in all columns, got nan in fr"),
        (lambda d: d.decode(np.full((3, 5), -np.inf)), "got -inf in frame 0, column 0"),
        (lambda d: d.decode(logits().astype(str)), "logits: expected numbers, got <U"),
        (lambda d: d.decode(logits(), beam_width=0), "beam_width: expected a whole number of at least 1, got 0"),
        (lambda d: d.decode(logits(), beam_width=2.5), "beam_width: expected a whole number of at least 1, got float"),
        (lambda d: d.decode(logits(), beam_prune_logp=1.0), "beam_prune_logp: expected a number of at most 0, got 1.0"),
        (lambda d: d.decode(logits(), token_min_logp=np.nan), "token_min_logp: expected a number that is a log-prob"),
        (lambda d: d.decode(logits(), hotwords=[3]), "hotwords: expected words as str, got int"),
        (lambda _: ours.build_ctcdecoder("abc"), "labels: expected a list of str, one for each column, got str"),
        (lambda _: ours.build_ctcdecoder({"a": 1, "": 0}), "got dict; write sorted(labels, key=labels.get)"),
        (lambda _: ours.build_ctcdecoder({"a", ""}), "labels: expected a list of str, one for each column, got set"),
        (lambda d: d.decode_batch([logits()], None), "logits_list: expected a list of arrays [frames, columns], got N"),
        (
            lambda d: d.decode_beams_batch(None, {"a": logits()}),
            "logits_list: expected a list of arrays [frames, columns], got dict",
        ),
        (lambda _: ours.build_ctcdecoder(["a", None]), "labels: expected str, got NoneType"),
        (lambda _: ours.build_ctcdecoder(["a", "b", "a"]), "labels: expected each label once, got 'a' twice"),
        (lambda _: ours.build_ctcdecoder(["▁a", " "]), "labels: expected pieces without spaces"),
        (lambda _: ours.build_ctcdecoder(LETTERS, threads=0), "threads: expected a whole number of at least 1"),
        (lambda _: ours.BeamSearchDecoderCTC(LETTERS), "alphabet: expected an Alphabet, got list"),
        (
            lambda _: ours.BeamSearchDecoderCTC(ours.Alphabet(LETTERS, False), object()),
            "language_model: expected arcbeam.compat.pyctcdecode.LanguageModel or None, got object",
        ),
        (lambda _: ours.Alphabet.loads('{"labels": []}'), "alphabet: expected the keys is_bpe and labels"),
    ],
)
def test_wrong_arguments_are_refused(call, said):
    with pytest.raises((TypeError, ValueError)) as error:
        call(ours.build_ctcdecoder(LETTERS))
    assert said in str(error.value)


def test_an_input_error_has_its_place():
    spoiled = logits()
    spoiled[3, 2] = np.nan
    with pytest.raises(InputError) as error:
        ours.build_ctcdecoder(LETTERS).decode(spoiled)
    assert (error.value.frame, error.value.column) == (3, 2)


def test_padding_is_warned_of():
    decoder = ours.build_ctcdecoder(["a", "b", " ", ""])
    speech = np.eye(4, dtype=np.float32)[[0, 3, 1]] * 9
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert decoder.decode(speech) == "ab"
    for padding in (0.0, -100.0):
        padded = np.pad(speech, ((0, 2), (0, 0)), constant_values=padding)
        with pytest.warns(UserWarning, match=r"^logits: all columns of the last frame are equal: is it padding, "):
            decoder.decode_batch(None, np.stack([padded, padded]))


def test_labels_without_a_space_are_warned_of():
    with pytest.warns(UserWarning, match="labels: expected a label ' ' or '|'"):
        ours.build_ctcdecoder(["a", "b"])


@needs_kenlm
def test_another_case_is_named(arpa, tmp_path):
    with pytest.warns(UserWarning, match=r"the labels lack 3 of their 3 letters .*have them in upper case: write"):
        ours.build_ctcdecoder([" ", "A", "B", "C", ""], arpa)
    upper = str(NGrams([word.upper() for word in WORDS], 2, seed=1).write(tmp_path / "upper.arpa"))
    with pytest.warns(UserWarning, match=r"has 0 of the 7 unigrams.* it has them in upper case"):
        ours.build_ctcdecoder(LETTERS, upper, WORDS)


def test_kenlm_is_named_where_it_is_missing(arpa, monkeypatch):
    monkeypatch.setattr(kenlm_module, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"needs the package kenlm, .*pip install kenlm"):
        ours.build_ctcdecoder(LETTERS, arpa)
    with warnings.catch_warnings(action="error"), pytest.raises(FileNotFoundError):
        ours.build_ctcdecoder(LETTERS, "no.arpa")
