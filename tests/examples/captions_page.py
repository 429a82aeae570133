"""A page in a headless Chromium, which plays a recording as its microphone."""

import itertools
import json
import shutil
import subprocess
import time
import urllib.request
from contextlib import contextmanager

from websockets.sync.client import connect

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
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

    def speak(self, url):
        """Opens a page, and presses its button."""
        self.call("Page.enable")
        self.call("Page.navigate", url=url)
        self.until("typeof caption", lambda found: found == "function")
        self.press()

    def press(self):
        self.value("document.getElementById('button').click()")

    def until(self, code, holds):
        end = time.monotonic() + GIVE_UP_S
        while not holds(found := self.value(code)):
            assert time.monotonic() < end, (code, found, self.value(STATUS))
            time.sleep(0.03)
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
