"""Speech with the acoustic model of the larger speech sets: the words of stored log-probs, and those of long audio."""

import numpy as np
import pytest

import arcbeam

for needed in ("onnx", "onnxruntime", "onnx_asr", "soundfile", "torch"):
    pytest.importorskip(needed, reason=f"{needed} is missing")

import soundfile  # noqa: E402

from arcbeam.report.score import Score  # noqa: E402
from tests.adapters.test_onnx_speech import features, quartznet  # noqa: E402, F401

MOST_OF_WINDOWS = 2.0  # percent of WER that windows may cost on these recordings; 0.3 on all hundred of the set


@pytest.fixture
def model(quartznet):  # noqa: F811
    return arcbeam.from_onnx(quartznet, preprocessor=features, device="cpu")


def test_the_words_of_the_demo_are_those_of_the_stored_log_probs(model, arcbeam_data):
    demo = arcbeam_data / "demo"
    with np.load(demo / "log_probs.npz") as stored:
        log_probs = np.split(stored["log_probs"], np.cumsum(stored["lengths"])[:-1])
        paths = [demo / f"{name}.flac" for name in stored["ids"]]
    expected = [str(one) for one in model.decoder.decode(log_probs)]
    found = arcbeam.Transcriber(model).transcribe(paths)
    assert [one.text for one in found] == expected
    assert [one.id for one in found] == [path.stem for path in paths]
    for one in found:
        assert all(0 <= word.start < word.end <= one.duration for word in one.words)


def test_joined_recordings_have_about_the_words_of_single_ones(model, arcbeam_data):
    """Two minutes as one recording, and as live audio."""
    folder = arcbeam_data / "test-other-100"
    lines = (folder / "reference.tsv").read_text().splitlines()[:16]
    said = [line.split("\t")[1] for line in lines]
    audio = [soundfile.read(folder / f"{line.split()[0]}.flac", dtype="float32")[0] for line in lines]
    transcriber, joined = arcbeam.Transcriber(model), np.concatenate(audio)

    def wer(text):
        score = Score()
        score.add([" ".join(said)], [text])
        return 100 * score.errors / score.words

    alone = wer(" ".join(one.text for one in transcriber.transcribe(audio)))
    whole = transcriber.transcribe(joined)
    assert len(joined) > 100 * 16_000 and len(whole.segments) > 16
    assert max(one.end - one.start for one in whole.segments) < 30
    live = [one.text for one in transcriber.stream(np.array_split(joined, 300), step_seconds=2.0) if one.is_final]
    assert abs(wer(whole.text) - alone) < MOST_OF_WINDOWS, (alone, wer(whole.text))
    assert abs(wer(" ".join(live)) - alone) < MOST_OF_WINDOWS, (alone, wer(" ".join(live)))
