"""The recipes of the guide for other toolkits, with stand-ins that return what the toolkits' classes return."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import arcbeam
from tests.front.models import CHARACTERS, WORDS, said, sentencepiece_model, write_arpa
from tests.package.test_guide import examples

torch = pytest.importorskip("torch", reason="torch is not installed")
sentencepiece = pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")
pytest.importorskip("kaldifst", reason="kaldifst is not installed: .[build]")

SAID = [["cab", "bad"], ["abba"], ["dad", "a", "cab"]]
TEXTS = [" ".join(words) for words in SAID]
ANY, SPEECHBRAIN, ESPNET, WENET, FUNASR = examples("guide/from-other-toolkits.md")
pytestmark = pytest.mark.filterwarnings("ignore:blank. expected:UserWarning", "ignore:log_probs. expected:UserWarning")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_arpa(tmp_path / "3gram.arpa")
    return tmp_path


@pytest.fixture
def pieces(here):
    return sentencepiece.SentencePieceProcessor(model_proto=sentencepiece_model(here))


class Ctc(torch.nn.Module):
    """Stands for the CTC layer of ESPnet, WeNet and FunASR: here the encoder's output already has the log-probs."""

    def log_softmax(self, encoded):
        assert encoded.ndim == 3
        return torch.log_softmax(encoded, -1)


class Encoder(torch.nn.Module):
    """Stands for an encoder that returns what it was made with."""

    def __init__(self, *returned):
        super().__init__()
        self.returned = returned

    def forward(self, speech, lengths):
        assert len(speech) == len(lengths) == len(SAID)
        return self.returned


def batch(pieces, names, blank, before=0):
    """Log-probs [batch, frames, columns] of what is said after so many frames, padded with a clear label; lengths."""
    rows = []
    for words in SAID:
        said_pieces = [piece for word in words for piece in pieces.EncodeAsPieces(word)]
        speech = said(said_pieces, names, blank)
        rows.append(np.concatenate([np.roll(speech[:1], 1, axis=1)] * before + [speech]))
    lengths = torch.tensor([len(one) for one in rows])
    padded = torch.nn.utils.rnn.pad_sequence([torch.from_numpy(one) for one in rows], batch_first=True)
    for one, length in zip(padded, lengths, strict=True):
        one[length:] = padded[0, before]  # which would be decoded as a label
    return padded, lengths


def names_of(pieces):
    return [pieces.id_to_piece(i) for i in range(pieces.get_piece_size())]


def run(code, **names):
    exec(compile(code, "from-other-toolkits.md", "exec"), names := {"arcbeam": arcbeam, "torch": torch, **names})
    return names


def test_the_two_lines(here):
    tokens = ["<blank>", "|", *CHARACTERS]
    log_probs = [said("|".join(words), tokens, 0) for words in SAID]
    found = run(ANY, tokens=tokens, log_probs=log_probs, lengths=None)["hypotheses"]
    assert [str(one) for one in found] == TEXTS


def test_speechbrain(here, pieces, monkeypatch):
    log_probs, lengths = batch(pieces, names_of(pieces), 0)

    class EncoderASR:
        """Stands for SpeechBrain's."""

        tokenizer, hparams = pieces, SimpleNamespace(blank_index=0)

        @classmethod
        def from_hparams(cls, source):
            return cls()

        def encode_batch(self, wavs, wav_lens):
            return log_probs

    module = ModuleType("speechbrain.inference.ASR")
    module.EncoderASR = EncoderASR
    for name in ("speechbrain", "speechbrain.inference"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "speechbrain.inference.ASR", module)
    found = run(SPEECHBRAIN, wavs=torch.zeros(3, 100), wav_lens=lengths / lengths.max())
    assert [str(one) for one in found["hypotheses"]] == TEXTS


def test_espnet(here, pieces):
    names = ["<blank>", *names_of(pieces), "<sos/eos>"]
    folder = Path("token_list/bpe_unigram5000")
    folder.mkdir(parents=True)
    (folder / "tokens.txt").write_text("".join(f"{name}\n" for name in names))
    (folder / "bpe.model").write_bytes(pieces.serialized_model_proto())
    log_probs, lengths = batch(pieces, names, 0)
    for encoded in (log_probs, (log_probs, [(3, log_probs)])):
        model = SimpleNamespace(encode=lambda speech, sizes, encoded=encoded: (encoded, lengths), ctc=Ctc())
        found = run(ESPNET, speech2text=SimpleNamespace(asr_model=model), speech=None, speech_lengths=None)
        assert [str(one) for one in found["hypotheses"]] == TEXTS


def test_wenet(here, pieces):
    names = ["<blank>", *names_of(pieces), "<sos/eos>"]
    Path("lang").mkdir()
    Path("lang/units.txt").write_text("".join(f"{name} {i}\n" for i, name in enumerate(names)))
    Path("lang/bpe.model").write_bytes(pieces.serialized_model_proto())
    log_probs, lengths = batch(pieces, names, 0)
    mask = (torch.arange(log_probs.shape[1]) < lengths[:, None])[:, None]
    model = SimpleNamespace(encoder=Encoder(log_probs, mask), ctc=Ctc())
    found = run(WENET, model=model, features=torch.zeros(3, 400, 80), feature_lengths=lengths)
    assert [str(one) for one in found["hypotheses"]] == TEXTS


def test_funasr(here, pieces, capsys):
    Path("chn_jpn_yue_eng_ko_spectok.bpe.model").write_bytes(pieces.serialized_model_proto())
    log_probs, lengths = batch(pieces, names_of(pieces), 0, before=4)
    model = SimpleNamespace(encoder=Encoder(log_probs, lengths), ctc=Ctc())

    class AutoModel:
        """Stands for FunASR's, of SenseVoice: in one call from files to its own text."""

        def __init__(self):
            self.model = model

        def generate(self, input):
            self.model.encoder(torch.zeros(3, 10, 560), lengths)
            return [{"key": name, "text": ""} for name in input]

    run(FUNASR, auto_model=AutoModel(), files=["a.wav", "b.wav", "c.wav"])
    assert capsys.readouterr().out.splitlines() == TEXTS and {*WORDS} >= {*" ".join(TEXTS).split()}
    assert not model.encoder._forward_hooks
