"""The page of captions in a headless Chromium, which plays a recording as its microphone."""

import itertools
import json
import shutil
import subprocess
import time
import urllib.request
from contextlib import contextmanager

import pytest

for needed in ("kaldifst", "starlette", "uvicorn", "websockets", "python_multipart", "soundfile", "soxr"):
    pytest.importorskip(needed, reason=f"{needed} is not installed: .[build,test]")

import soundfile  # noqa: E402
from websockets.sync.client import connect  # noqa: E402

from tests.examples.captions_server import serving  # noqa: E402
from tests.transcribe import tones  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
SENTENCES = ["abc dea", "cab ed"]
GIVE_UP_S = 60.0  # far more than it takes
TEXT = """[...document.querySelectorAll("p")].map(line => [line.dataset.final ?? "",
    ...["time", "span", "i"].map(name => line.querySelector(name).textContent)])"""
STATUS = "document.getElementById('status').textContent"
WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


class Page:
    """A page of Chromium, through its protocol for developers."""

    def __init__(self, socket):
        self.socket, self.numbers = socket, itertools.count(1)

    def call(self, method, **options):
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": options}))
        while (answer := json.loads(self.socket.recv(GIVE_UP_S))).get("id") != number:
            pass
        assert "error" not in answer, answer
        return answer["result"]

    def value(self, code):
        options = {"returnByValue": True, "userGesture": True, "awaitPromise": True}
        found = self.call("Runtime.evaluate", expression=code, **options)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, code, holds):
        end = time.monotonic() + GIVE_UP_S
        while not holds(found := self.value(code)):
            assert time.monotonic() < end, (code, found, self.value(STATUS))
        return found


@contextmanager
def chromium(folder, microphone):
    """A Page in a window of 400 pixels."""
    command = [
        CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        "--window-size=400,700", "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream",
        f"--use-file-for-fake-audio-capture={microphone}%noloop", f"--user-data-dir={folder}/profile",
        "--remote-debugging-port=0", "about:blank",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        for line in process.stderr:
            if "DevTools listening on" in line:
                break
        address = line.split()[-1].split("/")[2]
        with urllib.request.urlopen(f"http://{address}/json/list") as pages:
            url = next(one["webSocketDebuggerUrl"] for one in json.load(pages) if one["type"] == "page")
        with connect(url, max_size=None) as socket:
            yield Page(socket)
    finally:
        process.terminate()
        process.communicate()


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_the_words_of_the_microphone_are_on_the_page(tmp_path):
    audio = [tones.silence(40), *(tones.spoken(one, 8, 6) for one in SENTENCES)]
    audio = [part for one in audio for part in (one, tones.silence(60))]
    samples = tones.np.concatenate([*audio, tones.silence(40)])
    soundfile.write(tmp_path / "microphone.wav", samples, tones.RATE, subtype="PCM_16")
    with serving(tones.ToneModel(), step_seconds=0.5, ahead_seconds=0.2) as port:
        with chromium(tmp_path, tmp_path / "microphone.wav") as page:
            page.call("Page.enable")
            page.call("Page.navigate", url=f"http://127.0.0.1:{port}/")
            page.until("typeof caption", lambda found: found == "function")
            page.value("document.getElementById('button').click()")
            lines = page.until(TEXT, lambda found: len([one for one in found if one[0]]) == len(SENTENCES))
            assert [said for _, _, said, open in lines if not open] == SENTENCES
            assert [time for _, time, _, _ in lines] == sorted(time for _, time, _, _ in lines)
            assert page.value(STATUS) == "Listening" and page.value(WIDE) == 0
            page.value("document.getElementById('button').click()")
            page.until(STATUS, lambda found: found == "The microphone is off.")
            assert [line[2] for line in page.value(TEXT)] == SENTENCES
