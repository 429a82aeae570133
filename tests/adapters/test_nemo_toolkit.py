"""NeMo's own models, archives and decoding: pip install 'nemo_toolkit[asr]==3.0.0', in an environment with torch."""

import pytest

import arcbeam
from arcbeam.adapters import attach
from tests.adapters import nemo_models
from tests.front.models import WORDS

pytest.importorskip(
    "nemo.collections.asr.models",
    reason="NeMo is not installed: pip install 'nemo_toolkit[asr]==3.0.0'",
    exc_type=ImportError,  # its wheel alone lacks what models need
)

import nemo.collections.asr as asr
from nemo.collections.asr.parts.utils.rnnt_utils import Hypothesis

pytestmark = pytest.mark.filterwarnings("ignore")
MODELS = {
    "characters": lambda folder: nemo_models.characters(),
    "pieces": nemo_models.pieces,
    "rnnt": nemo_models.transducer,
    "tdt": lambda folder: nemo_models.transducer(folder, "tdt"),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A function of a kind: a fresh model, restored from its archive, and the archive."""
    pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")
    archives = {}

    def restored(kind):
        if kind not in archives:
            folder = tmp_path_factory.mktemp(kind)
            archives[kind] = folder / "model.nemo"
            MODELS[kind](folder).save_to(str(archives[kind]))
        return asr.models.ASRModel.restore_from(str(archives[kind]), map_location="cpu").eval(), archives[kind]

    return restored


def transcribed(model, **options):
    return model.transcribe(nemo_models.audio(), batch_size=3, verbose=False, **options)


def same(found, expected):
    assert [one.to_dict() for one in found] == [one.to_dict() for one in expected]


def letters(text):
    """The text without spaces, with NeMo's sign for an unknown piece as the piece; NeMo puts spaces around it."""
    return text.replace("\u2047", "<unk>").replace(" ", "")


@pytest.mark.parametrize("kind", ["characters", "pieces"])
def test_the_words_of_a_ctc_model(models, kind):
    model, archive = models(kind)
    own = transcribed(model, return_hypotheses=True)
    decoder = arcbeam.from_nemo(model)
    log_probs = [one.y_sequence for one in own]
    found = decoder.decode(log_probs)
    assert [letters(str(one)) for one in found] == [letters(one.text) for one in own]
    assert len({word.word for one in found for word in one.words}) > 4
    same(found, arcbeam.from_nemo(archive).decode(log_probs))
    seconds = {"characters": 0.02, "pieces": 0.08}[kind]
    assert decoder.options.frame_shift == arcbeam.from_nemo(archive).options.frame_shift == pytest.approx(seconds)


@pytest.mark.parametrize("kind", ["characters", "pieces"])
def test_a_ctc_model_with_an_attached_decoder(models, lm, kind):
    model, _ = models(kind)
    decoder = arcbeam.from_nemo(model, lm)
    log_probs = [one.y_sequence for one in transcribed(model, return_hypotheses=True)]
    expected = decoder.decode(log_probs, confidence=True)
    own = type(model.decoding.decoding)
    with attach(model, decoder, confidence=True):
        for timestamps in (None, True, False, True):
            found = transcribed(model, return_hypotheses=True, timestamps=timestamps)
            assert all(type(one) is Hypothesis for one in found)
            assert [one.text for one in found] == [str(one) for one in expected]
            assert [one.score for one in found] == [one.score for one in expected]
            for one, ours, rows in zip(found, expected, log_probs, strict=True):
                assert one.word_confidence == [word.confidence for word in ours.words] and ours.words
                assert one.y_sequence.equal(rows) and {*one.text.split()} <= {*WORDS}
                if timestamps is not None:  # False leaves them on, once they were
                    spans = [(w["word"], w["start_offset"], w["end_offset"]) for w in one.timestamp["word"]]
                    assert spans == [(w.word, w.start_frame, w.end_frame) for w in ours.words]
                    assert one.timestamp["word"][-1]["end"] == pytest.approx(ours.words[-1].end)
                    assert one.timestamp["char"] and one.timestamp["segment"][0]["segment"] == one.text
        assert transcribed(model)[0].text == str(expected[0])
        assert model.cfg.decoding.strategy in ("greedy", "greedy_batch")
    assert type(model.decoding.decoding) is own and transcribed(model, timestamps=True)


def test_nbest_lists_and_confidences_that_the_strategy_asks_for(models, lm):
    model, _ = models("pieces")
    decoder = arcbeam.from_nemo(model, lm)
    import torch

    log_probs = [one.y_sequence for one in transcribed(model, return_hypotheses=True)]
    batch = torch.nn.utils.rnn.pad_sequence(log_probs, batch_first=True)
    lengths = torch.tensor([len(rows) for rows in log_probs])
    attach(model, decoder)
    model.change_decoding_strategy({"strategy": "beam", "beam": {"beam_size": 3, "return_best_hypothesis": False}})
    found = model.decoding.ctc_decoder_predictions_tensor(batch, lengths, return_hypotheses=True)
    expected = decoder.decode(log_probs, nbest=3)
    assert [[e.text for e in best] for best in found] == [[e.text for e in one.nbest] for one in expected]
    assert [[one.text for one in best] for best in transcribed(model)] == [[e.text for e in h.nbest] for h in expected]
    method = {"name": "max_prob", "alpha": 1.0}
    asks = {"strategy": "greedy_batch", "confidence_cfg": {"preserve_word_confidence": True, "method_cfg": method}}
    model.change_decoding_strategy(asks)
    expected = decoder.decode(log_probs, frame_confidence=arcbeam.ConfidenceMethod(name="max_prob", alpha=1.0))
    for one, ours in zip(transcribed(model, return_hypotheses=True), expected, strict=True):
        assert one.word_confidence == ours.word_confidence.tolist() and len(one.word_confidence) == len(one.words)
        assert one.frame_confidence == ours.frame_confidence.tolist()


@pytest.mark.parametrize("kind", ["rnnt", "tdt"])
def test_the_tokens_of_a_transducer(models, kind):
    model, archive = models(kind)
    own = transcribed(model, return_hypotheses=True)
    timed = transcribed(model, timestamps=True)
    decoder = arcbeam.from_nemo(model)
    with attach(model, decoder):
        assert type(model.decoding.decoding).__module__ == "arcbeam.adapters.nemo_results"
        found = transcribed(model, return_hypotheses=True)
        for timestamps in (True, False, True):
            again = transcribed(model, return_hypotheses=True, timestamps=timestamps)
            assert [one.text for one in again] == [one.text for one in own]
    for one, theirs in zip(found, own, strict=True):
        assert one.text == theirs.text and one.y_sequence.tolist() == theirs.y_sequence.tolist()
    for one, theirs in zip(again, timed, strict=True):
        assert [*one.token_duration] == [*theirs.token_duration]
        for entries in ("word", "char", "segment"):
            assert one.timestamp[entries] == theirs.timestamp[entries]
    assert len({token for one in own for token in one.y_sequence.tolist()}) > 2
    assert arcbeam.from_nemo(archive).options == decoder.options
    assert transcribed(model, return_hypotheses=True)[0].dec_state is not None


@pytest.mark.parametrize("kind", ["rnnt", "tdt"])
def test_nbest_lists_of_a_transducer(models, kind):
    model, _ = models(kind)
    decoder = arcbeam.from_nemo(model, transducer={"beam": 6.0, "max_hypotheses": 4})
    with attach(model, decoder, nbest=4):
        found = transcribed(model, return_hypotheses=True)
        for entries in found:
            assert 1 < len(entries) <= 4 and len({tuple(one.y_sequence.tolist()) for one in entries}) == len(entries)
            assert [one.score for one in entries] == sorted((one.score for one in entries), reverse=True)
            assert all(len(one.timestamp) == len(one.y_sequence) for one in entries)
    with attach(model, decoder):
        best = transcribed(model, return_hypotheses=True)
    assert [one.y_sequence.tolist() for one in best] == [entries[0].y_sequence.tolist() for entries in found]


def test_confidences_of_a_transducer(models):
    model, _ = models("tdt")
    decoder = arcbeam.from_nemo(model, transducer={"confidence": "entropy"})
    attach(model, decoder)
    asks = {"strategy": "greedy_batch", "confidence_cfg": {"preserve_word_confidence": True}}
    model.change_decoding_strategy({**model.cfg.decoding, **asks})
    for one in transcribed(model, return_hypotheses=True):
        assert len(one.token_confidence) == len(one.y_sequence) and len(one.word_confidence) == len(one.words)
        assert all(0 <= value <= 1 for value in one.token_confidence)


def test_the_ctc_decoder_of_a_hybrid(models, lm):
    model, archive = models("tdt")
    assert isinstance(arcbeam.from_nemo(model), arcbeam.TransducerDecoder)
    model.change_decoding_strategy(decoder_type="ctc", verbose=False)
    log_probs = [one.y_sequence for one in transcribed(model, return_hypotheses=True)]
    decoder = arcbeam.from_nemo(model, lm)
    expected = decoder.decode(log_probs)
    same(expected, arcbeam.from_nemo(archive, lm, decoder_type="ctc").decode(log_probs))
    model.change_decoding_strategy(decoder_type="rnnt", verbose=False)
    with attach(model, decoder):
        for timestamps in (None, True, False):
            found = transcribed(model, return_hypotheses=True, timestamps=timestamps)
            assert [one.text for one in found] == [str(one) for one in expected]
    assert model.cur_decoder == "rnnt"


def test_silence_and_no_frames(models):
    model, _ = models("pieces")
    import torch

    attach(model, arcbeam.from_nemo(model))
    model.change_decoding_strategy({"strategy": "greedy_batch", "compute_timestamps": True}, verbose=False)
    blanks = torch.full((2, 5, len(model.decoder.vocabulary) + 1), -9.0)
    blanks[:, :, -1] = 0.0
    found = model.decoding.ctc_decoder_predictions_tensor(blanks, torch.tensor([5, 0]), return_hypotheses=True)
    assert [(one.text, one.timestamp["word"], one.timestamp["segment"]) for one in found] == [("", [], [])] * 2


def test_an_attached_decoder_in_validation(models, lm):
    model, _ = models("pieces")
    import torch

    log_probs = [one.y_sequence for one in transcribed(model, return_hypotheses=True)]
    decoder = arcbeam.from_nemo(model, lm)
    attach(model, decoder)
    said = str(decoder.decode(log_probs[0]))
    targets = torch.tensor([model.tokenizer.text_to_ids(said)])
    lengths = torch.tensor([len(log_probs[0])])
    model.wer.update(
        predictions=log_probs[0][None], predictions_lengths=lengths, targets=targets,
        targets_lengths=torch.tensor([targets.shape[1]]),
    )  # fmt: skip
    wer, _, words = model.wer.compute()
    assert wer == 0.0 and words == len(said.split())
