"""The server of captions with models in ONNX files: its command, and real speech in a browser's microphone."""

import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest

for needed in ("onnx", "onnx_asr", "torch", "kaldifst", "starlette", "uvicorn", "websockets", "soundfile", "soxr"):
    pytest.importorskip(needed, reason=f"{needed} is missing")


import soundfile  # noqa: E402

import arcbeam  # noqa: E402
from tests.adapters.onnx_models import LETTERS, nemo_ctc, recordings  # noqa: E402
from tests.adapters.test_onnx_speech import features, quartznet  # noqa: E402, F401
from tests.examples.captions_page import CHROMIUM, TEXT, chromium  # noqa: E402
from tests.examples.captions_server import bytes_of, captions, final, pieces, serving  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


def test_the_command(tmp_path):
    """It serves the page and the sentences that `Transcriber` finds in a recording."""
    nemo_ctc(tmp_path, LETTERS)
    [audio] = recordings(1)
    command = [sys.executable, "-m", "examples.captions", str(tmp_path), "--port", "0"]
    server = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        lines = [""]
        while "startup complete" not in lines[-1]:
            lines.append(server.stderr.readline())
            assert lines[-1], lines
        port = int(re.search(r"http://127.0.0.1:(\d+)", "".join(lines))[1])
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as page:
            assert b"<title>Captions</title>" in page.read()
        events, code, reason = captions(port, [*pieces(audio), "end"])
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate()
    assert (code, reason) == (1000, "") and server.returncode == 0
    transcriber = arcbeam.Transcriber(tmp_path)
    samples = np.frombuffer(bytes_of(audio), "<i2").astype(np.float32) / 32768
    live = transcriber.stream([samples], window_seconds=4.0, step_seconds=1.0, ahead_seconds=1.0)
    assert final(events) == [event.text for event in live if event.is_final] != []


def test_the_command_says_what_is_wrong(tmp_path):
    (model := tmp_path / "model").mkdir()
    (empty := tmp_path / "empty").mkdir()
    nemo_ctc(model, LETTERS)
    for arguments, message in [
        ([empty], "expected the folder of a model"),
        ([tmp_path / "none"], "there is no such path"),
        ([model, "--window-seconds", "1"], "step_seconds"),
    ]:
        command = [sys.executable, "-m", "examples.captions", *map(str, arguments)]
        found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert found.returncode == 2 and "Traceback" not in found.stderr and message in found.stderr


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_real_speech_in_a_browser(quartznet, demo_data, tmp_path):  # noqa: F811
    """The microphone plays a recording of the demo; the caption is what is said in it."""
    arpa = demo_data / "novels.3gram.arpa.xz"
    options = {"preprocessor": features, "cache": False, "device": "cpu", "acoustic_scale": 1.5}
    said = dict(line.split("\t") for line in (demo_data / "reference.tsv").read_text().splitlines())
    samples, rate = soundfile.read(demo_data / "goforward.flac")
    soundfile.write(tmp_path / "microphone.wav", np.concatenate([samples, np.zeros(2 * rate)]), rate, subtype="PCM_16")
    with serving(arcbeam.from_onnx(quartznet, arpa, **options)) as port:
        with chromium(tmp_path, tmp_path / "microphone.wav") as page:
            page.speak(f"http://127.0.0.1:{port}/")
            [line] = page.until(TEXT, lambda found: found and found[0][0])
    assert line[2:] == [said["goforward"], ""]
