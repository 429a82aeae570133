"""NeMo's archives, without NeMo and without torch: the same words as the models."""

import json
import sys

import pytest

import arcbeam
from tests.adapters.nemo_parts import (
    CTC_CONFIG,
    KINDS,
    LABELS,
    PIECES,
    ctc_archive,
    hybrid_config,
    rnnt_config,
    rnnt_weights,
    same,
    spoken,
)
from tests.front.models import WORDS, nemo_archive, said, sentencepiece_model, write_arpa
from tests.transducer.archives import nemo_file
from tests.transducer.networks import random_frames

pytest.importorskip("yaml", reason="the package pyyaml reads a model's configuration")


def test_an_archive_with_characters(tmp_path, lm):
    path = ctc_archive(tmp_path)
    batch = [spoken("cab", "bad"), spoken("abba")]
    greedy = arcbeam.from_nemo(path)
    assert [str(one) for one in greedy.decode(batch)] == ["cab bad", "abba"]
    assert greedy.options.frame_shift == 0.08 and greedy.graph.blank == len(LABELS)
    decoder = arcbeam.from_nemo(str(path), lm, beam=12.0, threads=1, frame_shift=0.04)
    assert [str(one) for one in decoder.decode(batch)] == ["cab bad", "abba"]
    assert decoder.options.beam == 12.0 and decoder.options.frame_shift == 0.04
    same(decoder.decode(batch), arcbeam.ctc_decoder(path, lm, beam=12.0, frame_shift=0.04).decode(batch))


def test_an_archive_with_pieces_cuts_words_as_its_tokenizer_does(tmp_path, lm):
    sentencepiece = pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")
    content = sentencepiece_model(tmp_path)
    pieces = sentencepiece.SentencePieceProcessor(model_proto=content)
    names = [pieces.id_to_piece(i) for i in range(pieces.get_piece_size())]
    config = CTC_CONFIG | {
        "tokenizer": {"type": "bpe", "model_path": "nemo:tokenizer.model"},
        "decoder": {"num_classes": len(names), "vocabulary": names},
    }
    path = nemo_archive(tmp_path / "m.nemo", json.dumps(config), **{"tokenizer.model": content})
    columns = [piece for word in WORDS for piece in pieces.EncodeAsPieces(word)]
    log_probs = said(columns, [*names, "<blank>"], len(names))
    assert str(arcbeam.from_nemo(path, lm).decode(log_probs)) == " ".join(WORDS)
    assert str(arcbeam.from_nemo(path, words=["cab", "bad", "dad"]).decode(log_probs[:8])) != ""


@pytest.mark.parametrize(
    ("encoder", "shift"),
    [
        ({"jasper": [{"stride": [2]}, {"stride": [1]}, {"stride": 4}]}, 0.08),
        ({"jasper": [{"stride": [2]}, {"filters": 3}]}, None),
        ({"_target_": "one of somebody's own"}, None),
    ],
)
def test_the_seconds_of_a_frame(tmp_path, encoder, shift):
    assert arcbeam.from_nemo(ctc_archive(tmp_path, encoder=encoder)).options.frame_shift == shift


@pytest.mark.parametrize("kind", KINDS)
def test_an_archive_of_a_transducer(tmp_path, kind):
    path = nemo_file(tmp_path / "m.nemo", json.dumps(rnnt_config(kind)), rnnt_weights(kind))
    frames = [random_frames(seed, length, 7) for seed, length in enumerate((40, 31))]
    decoder = arcbeam.from_nemo(path, threads=1, device="cpu", transducer={"confidence": "entropy"})
    same(decoder.decode(frames), arcbeam.TransducerDecoder.from_nemo(path, confidence="entropy").decode(frames))
    assert decoder.options.frame_shift == 0.08 and any(one.words for one in decoder.decode(frames))


def test_the_decoders_of_a_hybrid(tmp_path):
    path = nemo_file(tmp_path / "m.nemo", json.dumps(hybrid_config()), rnnt_weights("tdt"))
    assert isinstance(arcbeam.from_nemo(path), arcbeam.TransducerDecoder)  # with which NeMo begins, too
    assert isinstance(arcbeam.from_nemo(path, decoder_type="rnnt"), arcbeam.TransducerDecoder)
    ctc = arcbeam.from_nemo(path, decoder_type="ctc", word_delimiter="\u2581")
    log_probs = said(["\u2581a", "b", "\u2581f"], [*PIECES, "<blank>"], len(PIECES))
    assert str(ctc.decode(log_probs)) == "ab f"
    with pytest.raises(ValueError, match=r"lm: for CTC models; .* decoder_type='ctc' is for the CTC decoder of a hyb"):
        arcbeam.from_nemo(path, "3gram.arpa")


def test_archives_that_do_not_fit(tmp_path, lm):
    with pytest.raises(arcbeam.FormatError, match=r"expected 7 labels, as many as num_classes .* got 5"):
        arcbeam.from_nemo(ctc_archive(tmp_path, decoder={"num_classes": 7, "vocabulary": LABELS}))
    with pytest.raises(arcbeam.UnsupportedError, match=r"expected a vocabulary of distinct labels, got 'a' twice"):
        arcbeam.from_nemo(ctc_archive(tmp_path, decoder={"vocabulary": [*LABELS, "a", "d"]}))
    path = ctc_archive(tmp_path)
    with pytest.raises(arcbeam.UnsupportedError, match=r"decoder_type: expected 'ctc', all that it has, got 'rnnt'"):
        arcbeam.from_nemo(path, decoder_type="rnnt")
    with pytest.raises(ValueError, match=r"decoder_type: expected 'ctc', 'rnnt' or None, got 'tdt'"):
        arcbeam.from_nemo(path, decoder_type="tdt")
    with pytest.raises(ValueError, match=r"transducer: expected None for a CTC model, got \{\}"):
        arcbeam.from_nemo(path, transducer={})
    with pytest.raises(TypeError, match=r"unknown option blank: expected one of model, lm, decoder_type, "):
        arcbeam.from_nemo(path, blank=0)
    with pytest.raises(ValueError, match=r"columns"):
        arcbeam.from_nemo(path).decode(spoken("cab")[:, :4])
    with pytest.raises(ValueError, match=r"upper\.arpa: expected words that the tokens can spell.*in the same case"):
        arcbeam.from_nemo(path, write_arpa(tmp_path / "upper.arpa", [word.upper() for word in WORDS]))
    rnnt = nemo_file(tmp_path / "m.nemo", json.dumps(rnnt_config("rnnt")), rnnt_weights("rnnt"))
    with pytest.raises(arcbeam.UnsupportedError, match=r"decoder_type: expected 'rnnt', all that it has, got 'ctc'"):
        arcbeam.from_nemo(rnnt, decoder_type="ctc")
    canary = {"target": "nemo.EncDecMultiTaskModel", "transf_decoder": {}, "labels": LABELS}
    with pytest.raises(arcbeam.UnsupportedError, match=r"expected a model with a CTC decoder.* got nemo.EncDecMulti"):
        arcbeam.from_nemo(nemo_archive(tmp_path / "canary.nemo", json.dumps(canary)))
    with pytest.raises(arcbeam.FormatError, match=r"expected model_config.yaml in the archive, got none"):
        arcbeam.from_nemo(nemo_file(tmp_path / "none.nemo", None, b"weights"))


def test_what_is_no_file(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"missing\.nemo"):
        arcbeam.from_nemo(tmp_path / "missing.nemo")
    with pytest.raises(FileNotFoundError, match=r"missing\.nemo"):
        arcbeam.from_nemo("missing.nemo")
    with pytest.raises(ValueError, match=r"expected the path of a file, got the URL 'https://.*nemo'; download it"):
        arcbeam.from_nemo("https://example.org/model.nemo")
    with pytest.raises(TypeError, match=r"expected the path of a .nemo archive, a model object of NeMo or its name"):
        arcbeam.from_nemo(3)
    monkeypatch.setitem(sys.modules, "nemo", None)
    message = r"loading 'nvidia/parakeet-ctc-0.6b', which is no file.*pip install 'nemo_toolkit\[asr\]'"
    with pytest.raises(arcbeam.MissingDependencyError, match=message):
        arcbeam.from_nemo("nvidia/parakeet-ctc-0.6b")
