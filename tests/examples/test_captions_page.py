"""The page of captions, with tones as the microphone."""

import pytest

for needed in ("kaldifst", "starlette", "uvicorn", "websockets", "python_multipart", "soundfile", "soxr"):
    pytest.importorskip(needed, reason=f"{needed} is not installed: .[build,captions]")

import numpy as np  # noqa: E402
import soundfile  # noqa: E402

from tests.examples.captions_page import CHROMIUM, STATUS, TEXT, WIDE, chromium  # noqa: E402
from tests.examples.captions_server import serving  # noqa: E402
from tests.transcribe import tones  # noqa: E402

SENTENCES = ["abc de", "cab"]


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_the_words_of_the_microphone_are_on_the_page(tmp_path):
    audio = [tones.silence(40), *(tones.spoken(one, 6, 4) for one in SENTENCES)]
    audio = [part for one in audio for part in (one, tones.silence(40))]
    samples = np.concatenate([*audio, tones.silence(40)])
    soundfile.write(tmp_path / "microphone.wav", samples, tones.RATE, subtype="PCM_16")
    with serving(tones.ToneModel(), step_seconds=0.5, ahead_seconds=0.2) as port:
        with chromium(tmp_path, tmp_path / "microphone.wav") as page:
            page.speak(f"http://127.0.0.1:{port}/")
            seen = []
            lines = page.until(TEXT, lambda found: seen.append(found) or sum(bool(one[0]) for one in found) == 2)
            assert any(line[3] and not line[0] for found in seen for line in found), "no word was grey"
            assert [said for _, _, said, open in lines if not open] == SENTENCES
            assert [time for _, time, _, _ in lines] == sorted(time for _, time, _, _ in lines)
            assert page.value(STATUS) == "Listening" and page.value(WIDE) == 0
            page.press()
            page.until(STATUS, lambda found: found == "The microphone is off.")
            assert [line[2] for line in page.value(TEXT)] == SENTENCES
