"""Pages in a headless Chromium, which is driven through two pipes by its DevTools protocol."""

import json
import os
import select
import shutil
import subprocess
import tempfile
from contextlib import contextmanager

import pytest

SECONDS = 60  # for an answer, after which the browser is taken for dead
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class Page:
    """A page of the browser; `run` returns the value of an expression or a promise."""

    def __init__(self, browser):
        self._browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")

    def call(self, method, **parameters):
        return self._browser.call(method, self._session, **parameters)

    def open(self, path, width=1400, height=900):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Page.navigate", url=path.as_uri())
        self.run("new Promise((done) => { const wait = () => document.readyState === 'complete' ? done() "
                 ": setTimeout(wait, 5); wait(); })")  # fmt: skip

    def run(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key):
        """Types a key where the focus is."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, text="\r" if key == "Enter" else "")

    def texts(self, selector):
        return self.run(f"[...document.querySelectorAll({json.dumps(selector)})].map((one) => one.textContent)")


class Chromium:
    """A browser, and the numbered calls that it answers."""

    def __init__(self, process, to_browser, from_browser):
        self._process, self._to, self._from = process, to_browser, from_browser
        self._number, self._pending = 0, b""

    def call(self, method, session=None, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        message |= {} if session is None else {"sessionId": session}
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = json.loads(self._message())
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]

    def _message(self):
        while b"\0" not in self._pending:
            ready, _, _ = select.select([self._from], [], [], SECONDS)
            data = os.read(self._from, 1 << 16) if ready else b""
            assert data, f"the browser gave no answer in {SECONDS} s: {self._process.poll()}"
            self._pending += data
        message, _, self._pending = self._pending.partition(b"\0")
        return message


@contextmanager
def chromium():
    """A browser of its own; the test skips where there is none."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip(f"no browser is installed: {', '.join(PROGRAMS)}")
    to_child, from_child = os.pipe(), os.pipe()
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--mute-audio", "--remote-debugging-pipe"]
    options.append("--autoplay-policy=no-user-gesture-required")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # The program reads from descriptor 3 and writes to 4, whatever they are here.
        shell = f'exec {program} "$@" 3<&{to_child[0]} 4>&{from_child[1]}'
        process = subprocess.Popen(
            ["bash", "-c", shell, "chromium", *options, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=[to_child[0], from_child[1]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_child[0])
        os.close(from_child[1])
        browser = Chromium(process, to_child[1], from_child[0])
        try:
            yield browser
            browser.call("Browser.close")
        finally:
            process.terminate()
            process.wait(SECONDS)
            os.close(to_child[1])
            os.close(from_child[0])
