"""Models with the calls of NeMo's classes: the same words as their archives, in NeMo's own hypotheses."""

import copy
import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import arcbeam
from arcbeam.adapters import attach
from tests.adapters import nemo_stand_ins
from tests.adapters.nemo_parts import (
    CTC_CONFIG,
    KINDS,
    LABELS,
    PIECES,
    ctc_archive,
    hybrid,
    rnnt_config,
    rnnt_weights,
    same,
    spoken,
)
from tests.adapters.nemo_stand_ins import CtcModel, HybridModel
from tests.front.models import nemo_archive, said
from tests.package.test_guide import examples
from tests.transducer.archives import nemo_file
from tests.transducer.networks import random_frames

pytest.importorskip("yaml", reason="the package pyyaml reads a model's configuration")


@pytest.fixture
def torch(monkeypatch):
    found = pytest.importorskip("torch", reason="torch is not installed")
    nemo_stand_ins.install(monkeypatch)
    return found


def batch_of(torch, *rows):
    """A padded batch [batch, frames, columns] and its lengths."""
    lengths = torch.tensor([len(one) for one in rows])
    padded = torch.zeros(len(rows), int(lengths.max()), rows[0].shape[1])
    for place, one in zip(padded, rows, strict=True):
        place[: len(one)] = torch.from_numpy(one)
    return padded, lengths


SPOKEN = (spoken("cab", "bad"), spoken("abba"), spoken("dad", "a", "cab"))
TEXTS = ["cab bad", "abba", "dad a cab"]


def test_a_ctc_model_decodes_as_its_archive(torch, tmp_path, lm):
    model = CtcModel(CTC_CONFIG, LABELS)
    of_archive = arcbeam.from_nemo(ctc_archive(tmp_path), lm)
    decoder = arcbeam.from_nemo(model, lm)
    batch, lengths = batch_of(torch, *SPOKEN)
    same(decoder.decode(batch, lengths), of_archive.decode(SPOKEN))
    same(
        decoder.decode([rows[:length] for rows, length in zip(batch, lengths, strict=True)]), of_archive.decode(SPOKEN)
    )
    model.decoder.num_classes_with_blank = 9
    with pytest.raises(ValueError, match=r"CtcModel: expected 8 labels in the vocabulary .* got 5"):
        arcbeam.from_nemo(model)


def test_the_name_of_a_model_that_nemo_loads(torch, monkeypatch):
    model, names = CtcModel(CTC_CONFIG, LABELS), []
    loads = SimpleNamespace(from_pretrained=lambda name: names.append(name) or model)
    monkeypatch.setitem(sys.modules, "nemo.collections.asr.models", SimpleNamespace(ASRModel=loads))
    decoder = arcbeam.from_nemo("nvidia/parakeet-ctc-0.6b", threads=1)
    assert str(decoder.decode(spoken("cab", "bad"))) == "cab bad" and names == ["nvidia/parakeet-ctc-0.6b"]


def test_an_attached_decoder_survives_transcribe(torch, lm):
    model = CtcModel(CTC_CONFIG, LABELS)
    decoder = arcbeam.from_nemo(model, lm)
    batch = batch_of(torch, *SPOKEN)
    strategy = model.cfg["decoding"]["strategy"]
    attachment = attach(model, decoder, confidence=True)
    assert [one.text for one in model.transcribe(batch)] == TEXTS
    for timestamps in (True, False, None, True):
        found = model.transcribe(batch, return_hypotheses=True, timestamps=timestamps)
        assert [one.text for one in found] == TEXTS
        assert all(isinstance(one, nemo_stand_ins.Hypothesis) for one in found)
        expected = decoder.decode(*batch, confidence=True)
        assert [one.score for one in found] == [one.score for one in expected]
        for one, ours in zip(found, expected, strict=True):
            assert one.word_confidence == [word.confidence for word in ours.words]
            names = ("word", "start_offset", "end_offset", "start", "end")
            assert one.timestamp["word"] == [dict(zip(names, word[:5], strict=True)) for word in ours.words]
            labels = [entry["char"] for entry in one.timestamp["char"]]
            assert "".join(labels) == one.text.replace(" ", "")
            starts = [entry["start_offset"] for entry in one.timestamp["char"]]
            assert starts == one.timestamp["timestep"] == sorted(starts)
            [segment] = one.timestamp["segment"]
            assert segment["segment"] == one.text and segment["end"] == ours.words[-1].end
    assert model.cfg["decoding"]["strategy"] == strategy  # what the model would save
    attachment.detach()
    attachment.detach()
    assert "detached" in repr(attachment) and not {"change_decoding_strategy", "change_vocabulary"} & {*vars(model)}
    with pytest.raises(AssertionError, match="NeMo's own decoder was called"):
        model.transcribe(batch)
    fresh = CtcModel(CTC_CONFIG, LABELS)
    own = fresh.decoding.decoding
    with attach(fresh, decoder):
        assert fresh.transcribe(batch)[1].text == "abba"
    assert fresh.decoding.decoding is own and fresh.decoding.cfg is fresh.cfg["decoding"]


def test_labels_without_times_are_there_where_the_strategy_asks_for_them(torch):
    cfg = copy.deepcopy(CTC_CONFIG)
    cfg["decoding"] |= {"preserve_alignments": True, "compute_timestamps": True, "ctc_timestamp_type": "word"}
    model = CtcModel(cfg, LABELS)
    batch, lengths = batch_of(torch, *SPOKEN)
    attach(model, arcbeam.from_nemo(model))
    found = model.decoding.ctc_decoder_predictions_tensor(batch, lengths, return_hypotheses=True)
    for one, rows in zip(found, SPOKEN, strict=True):
        log_probs, columns = one.alignments
        assert np.array_equal(log_probs.numpy(), rows) and np.array_equal(columns.numpy(), rows.argmax(-1))
        assert "".join(LABELS[i] for i in one.y_sequence.tolist()) == one.text
        assert {*one.timestamp} == {"timestep", "word"} and one.length == len(rows)
    model.change_decoding_strategy(cfg["decoding"] | {"ctc_timestamp_type": "all"})
    quiet = torch.from_numpy(np.log(np.full((1, 4, 6), [0.02] * 5 + [0.9], np.float32)))
    [one] = model.decoding.ctc_decoder_predictions_tensor(quiet, return_hypotheses=True)  # all frames
    assert (one.text, one.y_sequence.tolist()) == ("", [])
    assert one.timestamp == {"timestep": [], "char": [], "word": [], "segment": []}
    [one] = model.decoding.ctc_decoder_predictions_tensor(quiet, torch.tensor([0]), return_hypotheses=True)
    assert (one.text, one.length, one.y_sequence.tolist()) == ("", 0, []) and one.timestamp["word"] == []


def test_nbest_lists_where_the_strategy_asks_for_them(torch, lm):
    model = CtcModel(CTC_CONFIG, LABELS)
    decoder = arcbeam.from_nemo(model, lm)
    batch, lengths = batch_of(torch, *SPOKEN)
    expected = decoder.decode(batch, lengths, nbest=4)
    attach(model, decoder)
    for strategy, section in (("beam", "beam"), ("pyctcdecode", "beam"), ("wfst", "wfst")):
        asks = {"strategy": strategy, "beam": {}, section: {"beam_size": 4, "return_best_hypothesis": False}}
        model.change_decoding_strategy(asks)
        found = model.decoding.ctc_decoder_predictions_tensor(batch, lengths, return_hypotheses=True)
        assert [[one.text for one in best] for best in found] == [[e.text for e in one.nbest] for one in expected]
        assert [[one.score for one in best] for best in found] == [[e.score for e in one.nbest] for one in expected]
    assert max(map(len, found)) == 4
    model.change_decoding_strategy(asks | {section: {"beam_size": 4}})
    assert [one.text for one in model.decoding.ctc_decoder_predictions_tensor(batch, lengths)] == TEXTS
    attach(model, decoder, nbest=2)
    assert {len(best) for best in model.decoding.ctc_decoder_predictions_tensor(batch, lengths)} == {2}
    assert model.cfg["decoding"]["strategy"] == "wfst" and model.cfg["decoding"]["wfst"] == {"beam_size": 4}


def test_confidences_of_frames_where_the_strategy_asks_for_them(torch, lm):
    method = {"name": "entropy", "entropy_type": "gibbs", "alpha": 0.5, "entropy_norm": "lin"}
    asks = {"strategy": "greedy", "confidence_cfg": {"preserve_frame_confidence": True, "method_cfg": method}}
    model = CtcModel(CTC_CONFIG, LABELS)
    decoder = arcbeam.from_nemo(model, lm)
    batch = batch_of(torch, *SPOKEN)
    attach(model, decoder)
    assert model.transcribe(batch, return_hypotheses=True)[0].frame_confidence is None
    model.change_decoding_strategy(asks)
    expected = decoder.decode(*batch, frame_confidence=arcbeam.ConfidenceMethod(**method))
    for one, ours in zip(model.transcribe(batch, return_hypotheses=True), expected, strict=True):
        assert one.frame_confidence == ours.frame_confidence.tolist()
        assert one.token_confidence == ours.token_confidence.tolist()
        assert one.word_confidence == ours.word_confidence.tolist()
    attach(model, decoder, confidence=True, frame_confidence="max_prob")
    expected = decoder.decode(*batch, confidence=True, frame_confidence="max_prob")
    for one, ours in zip(model.transcribe(batch, return_hypotheses=True), expected, strict=True):
        assert one.frame_confidence == ours.frame_confidence.tolist()
        assert one.word_confidence == [word.confidence for word in ours.words]


def test_boosts_and_a_new_vocabulary(torch, lm):
    model = CtcModel(CTC_CONFIG, LABELS)
    decoder = arcbeam.from_nemo(model, lm)
    unclear = np.log(np.full((1, 6, 6), [1 / 6] * 6, np.float32))
    batch = torch.from_numpy(unclear), torch.tensor([6])
    with attach(model, decoder, boost=arcbeam.Boost({"abba": 50.0})):
        assert "abba" in model.transcribe(batch)[0].text
    attachment = attach(model, decoder)
    with pytest.warns(UserWarning, match=r"change_vocabulary: the attached decoder is detached"):
        model.change_vocabulary(["x", "y"])
    assert "detached" in repr(attachment) and "change_vocabulary" not in vars(model)
    assert isinstance(model.decoding.decoding, nemo_stand_ins.Own)


@pytest.mark.parametrize("kind", KINDS)
def test_a_transducer_and_its_chunks(torch, tmp_path, kind):
    model = HybridModel(rnnt_config(kind), PIECES, rnnt_weights(kind), has_ctc=False)
    decoder = arcbeam.from_nemo(model, transducer={"confidence": "entropy"})
    path = nemo_file(tmp_path / "m.nemo", json.dumps(rnnt_config(kind)), rnnt_weights(kind))
    frames = [random_frames(seed, length, 7) for seed, length in enumerate((40, 31))]
    expected = decoder.decode(frames)
    same(expected, arcbeam.from_nemo(path, transducer={"confidence": "entropy"}).decode(frames))
    padded, lengths = batch_of(torch, *frames)
    encoded = padded.transpose(1, 2)  # NeMo's layout
    attachment = attach(model, decoder)
    for timestamps in (None, True, True, False):
        found = model.transcribe((encoded, lengths), return_hypotheses=True, timestamps=timestamps)
        assert [one.text for one in found] == [one.text for one in expected] and any(one.text for one in found)
        for one, ours in zip(found, expected, strict=True):
            assert one.y_sequence.tolist() == ours.tokens.tolist() and one.score == ours.score
            assert one.timestamp.tolist() == ours.frames.tolist()
            assert one.token_duration.tolist() == ([] if kind == "rnnt" else ours.durations.tolist())
            assert one.token_confidence == ours.confidence.tolist()
            assert one.word_confidence == [word.confidence for word in ours.words]
    partial = [None, None]
    for begin in (0, 16):
        chunk, left = encoded[:, :, begin : begin + 16], (lengths - begin).clamp(0, 16)
        partial = model.transcribe((chunk, left), return_hypotheses=True, partial_hypothesis=partial)
    whole = decoder.decode([one[:32] for one in frames])
    assert [one.y_sequence.tolist() for one in partial] == [one.tokens.tolist() for one in whole]
    if kind == "tdt":
        assert [one.token_duration.tolist() for one in partial] == [one.durations.tolist() for one in whole]
    partial[0].dec_state = object()
    with pytest.raises(ValueError, match=r"partial_hypotheses: expected hypotheses of the attached decoder, got a st"):
        model.transcribe((encoded, lengths), partial_hypothesis=partial)
    partial[0].biasing_cfg = object()
    with pytest.raises(arcbeam.UnsupportedError, match=r"biasing_cfg: expected a hypothesis without it"):
        model.transcribe((encoded, lengths), partial_hypothesis=partial)
    attachment.detach()
    assert isinstance(model.decoding.decoding, nemo_stand_ins.Own)


@pytest.mark.parametrize("kind", KINDS)
def test_a_transducer_with_a_beam(torch, kind):
    model = HybridModel(rnnt_config(kind), PIECES, rnnt_weights(kind), has_ctc=False)
    decoder = arcbeam.from_nemo(model, transducer={"beam": 8.0, "max_hypotheses": 5, "confidence": "entropy"})
    frames = [random_frames(seed, length, 7) for seed, length in enumerate((40, 31, 0))]
    padded, lengths = batch_of(torch, *frames)
    speech = padded.transpose(1, 2), lengths
    expected = decoder.decode(frames, nbest=4)

    def same_entry(one, ours):
        assert one.y_sequence.tolist() == ours.tokens.tolist() and one.score == ours.score and one.text == ours.text
        assert one.timestamp.tolist() == ours.frames.tolist() and one.token_confidence == ours.confidence.tolist()
        assert one.token_duration.tolist() == ([] if kind == "rnnt" else ours.durations.tolist())

    with attach(model, decoder):
        for one, ours in zip(model.transcribe(speech, return_hypotheses=True), expected, strict=True):
            same_entry(one, ours)
        model.change_decoding_strategy(
            {"strategy": "malsd_batch", "beam": {"return_best_hypothesis": False, "beam_size": 4}}
        )
        for found, ours in zip(model.transcribe(speech, return_hypotheses=True), expected, strict=True):
            for one, entry in zip(found, ours.nbest, strict=True):
                same_entry(one, entry)
        assert max(len(one.nbest) for one in expected) == 4
        with pytest.raises(arcbeam.UnsupportedError, match=r"partial_hypotheses: expected a greedy decoder, got one w"):
            model.transcribe(speech, partial_hypothesis=[None, None, None])
        with pytest.raises(
            ValueError, match=r"strategy maes: expected a beam_size of at most max_hypotheses, 5, got 6"
        ):
            model.change_decoding_strategy(
                {"strategy": "maes", "beam": {"return_best_hypothesis": False, "beam_size": 6}}
            )
    with attach(model, decoder, nbest=2):
        assert [len(one) for one in model.transcribe(speech, return_hypotheses=True)] == [
            len(one.nbest[:2]) for one in expected
        ]


def test_a_hybrid_uses_what_is_attached(torch):
    model = hybrid()
    log_probs = said(["\u2581a", "b", "\u2581f"], [*PIECES, "<blank>"], len(PIECES))
    batch = torch.from_numpy(log_probs)[None], torch.tensor([len(log_probs)])
    assert isinstance(arcbeam.from_nemo(model), arcbeam.TransducerDecoder)
    ctc = attach(model, arcbeam.from_nemo(model, decoder_type="ctc", word_delimiter="\u2581"))
    assert model.cur_decoder == "ctc" and isinstance(arcbeam.from_nemo(model, words=["ab"]), arcbeam.CtcDecoder)
    for timestamps in (None, True, False):
        [found] = model.transcribe(batch, return_hypotheses=True, timestamps=timestamps)
        assert found.text == "ab f" and (timestamps is not True or found.timestamp["word"][1]["word"] == "f")
    frames = random_frames(1, 40, 7)
    rnnt = attach(model, arcbeam.from_nemo(model, decoder_type="rnnt"))
    assert model.cur_decoder == "rnnt"
    encoded = torch.from_numpy(frames).T[None], torch.tensor([40])
    assert model.transcribe(encoded, timestamps=True)[0].text == rnnt.decoder.decode(frames).text
    rnnt.detach()
    assert model.cur_decoder == "ctc" and model.transcribe(batch)[0].text == "ab f"
    ctc.detach()
    assert model.cur_decoder == "rnnt" and "change_decoding_strategy" not in vars(model)


def test_what_does_not_fit_a_model(torch, lm):
    model, other = CtcModel(CTC_CONFIG, LABELS), hybrid()
    decoder, transducer = arcbeam.from_nemo(model), arcbeam.from_nemo(other)
    with pytest.raises(TypeError, match=r"model: expected a model object of NeMo, got str"):
        attach("model.nemo", decoder)
    with pytest.raises(TypeError, match=r"decoder: expected a CtcDecoder or TransducerDecoder, got CtcModel"):
        attach(model, model)
    with pytest.raises(arcbeam.UnsupportedError, match=r"expected an RNN-T or a TDT for a TransducerDecoder, got Ctc"):
        attach(model, transducer)
    with pytest.raises(ValueError, match=r"decoder: expected one for the 13 columns of the model.* got one for 6 col"):
        attach(other, decoder)
    without = HybridModel(rnnt_config("tdt"), PIECES, rnnt_weights("tdt"), has_ctc=False)
    with pytest.raises(arcbeam.UnsupportedError, match=r"expected a model with a CTC decoder, .* got HybridModel"):
        attach(without, decoder)
    with pytest.raises(ValueError, match=r"confidence: for a CtcDecoder; a TransducerDecoder has its option"):
        attach(other, transducer, confidence=True)
    with pytest.raises(ValueError, match=r"nbest: expected a decoder with a beam, got a greedy one"):
        attach(other, transducer, nbest=3)
    with pytest.raises(ValueError, match=r"nbest: expected at most max_hypotheses, which is 2, got 3"):
        attach(other, arcbeam.from_nemo(other, transducer={"beam": 4, "max_hypotheses": 2}), nbest=3)
    other.decoding.blank_id = 7
    with pytest.raises(ValueError, match=r"decoder: expected one with the blank 7, as the model has it, got one w"):
        attach(other, transducer)
    attach(model, decoder)
    with pytest.raises(ValueError, match=r"decoder_output: expected log-probs \[batch, frames, columns\], got shape"):
        model.decoding.decoding(decoder_output=torch.zeros(2, 5))
    assert model.transcribe(batch_of(torch, *SPOKEN))[0].text == "cab bad"  # it still decodes


def test_what_a_transducer_does_not_give(torch):
    model = hybrid("rnnt")
    plain, sure = arcbeam.from_nemo(model), arcbeam.from_nemo(model, transducer={"confidence": "entropy"})
    frames = torch.from_numpy(random_frames(1, 40, 7)).T[None], torch.tensor([40])
    attach(model, plain)
    asks = {"strategy": "greedy_batch", "confidence_cfg": {"preserve_frame_confidence": True}}
    with pytest.raises(ValueError, match=r"the strategy asks for confidences, and the decoder has none; make it with"):
        model.change_decoding_strategy(asks)
    assert isinstance(model.decoding.decoding, nemo_stand_ins.Own)
    attach(model, sure)
    [found] = model.transcribe(frames, return_hypotheses=True)
    assert found.non_blank_step_confidence_precomputed == found.token_confidence and found.token_confidence
    asks["confidence_cfg"]["exclude_blank"] = False
    with pytest.raises(ValueError, match=r"confidence_cfg: expected exclude_blank=True"):
        model.change_decoding_strategy(asks)
    with pytest.raises(ValueError, match=r"strategy maes: expected return_best_hypothesis=True, because a g"):
        model.change_decoding_strategy({"strategy": "maes", "beam": {"return_best_hypothesis": False}})


def test_nemo_is_needed_to_attach(monkeypatch):
    monkeypatch.setitem(sys.modules, "nemo", None)
    model = SimpleNamespace(cfg={}, state_dict=dict, change_decoding_strategy=list)
    with pytest.raises(arcbeam.MissingDependencyError, match=r"attach needs .* pip install 'nemo_toolkit\[asr\]'"):
        attach(model, None)


def test_the_page(torch, lm, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    opening, archive, transducers = examples("guide/from-nemo.md")
    ctc = CtcModel(CTC_CONFIG, LABELS)
    ctc.eval = lambda: ctc
    models = SimpleNamespace(ASRModel=SimpleNamespace(from_pretrained=lambda name: ctc))
    monkeypatch.setitem(sys.modules, "nemo.collections.asr.models", models)
    batch = batch_of(torch, *SPOKEN)
    names = {"files": batch}
    exec(compile(opening, "from-nemo.md", "exec"), names)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" [{")[0] for line in lines] == TEXTS and all("'end':" in line for line in lines)
    nemo_archive(tmp_path / "parakeet-ctc-0.6b.nemo", json.dumps(CTC_CONFIG))
    exec(compile(archive, "from-nemo.md", "exec"), names | dict(zip(("log_probs", "lengths"), batch, strict=True)))
    assert [line.split(" [(")[0] for line in capsys.readouterr().out.splitlines()] == TEXTS
    nemo_file(tmp_path / "parakeet-tdt-0.6b-v3.nemo", json.dumps(rnnt_config("tdt")), rnnt_weights("tdt"))
    padded, lengths = batch_of(torch, random_frames(0, 40, 7), random_frames(1, 31, 7))
    names["model"] = lambda input_signal, input_signal_length: (padded.transpose(1, 2), lengths)
    exec(compile(transducers, "from-nemo.md", "exec"), names | {"audio": None, "sizes": None})
    assert "confidence=" in capsys.readouterr().out
