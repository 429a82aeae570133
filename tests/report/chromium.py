"""A page in a headless Chromium, which is driven through two pipes by its DevTools protocol."""

import json
import os
import select
import shutil
import subprocess
from contextlib import contextmanager

import pytest

SECONDS = 60  # for an answer, after which the browser is taken for dead
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--mute-audio", "--remote-debugging-pipe",
    "--autoplay-policy=no-user-gesture-required",
)  # fmt: skip


class Page:
    """A page, and the numbered calls that the browser answers."""

    def __init__(self, to_browser, from_browser):
        self._to, self._from, self._number, self._pending, self._session = to_browser, from_browser, 0, b"", {}
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = {"sessionId": self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}

    def call(self, method, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters, **self._session}
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := json.loads(self._message())).get("id") != self._number:
            pass  # an event
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    def _message(self):
        while b"\0" not in self._pending:
            ready, _, _ = select.select([self._from], [], [], SECONDS)
            data = os.read(self._from, 1 << 16) if ready else b""
            assert data, f"the browser gave no answer in {SECONDS} s"
            self._pending += data
        message, _, self._pending = self._pending.partition(b"\0")
        return message

    def open(self, path, width=1400):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.call("Page.navigate", url=path.as_uri())
        self.wait_for("document.documentElement?.dataset.ready")

    def run(self, expression):
        """The value of an expression or a promise."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, condition):
        self.run(
            f"new Promise((done) => {{ const wait = () => {condition} ? done() : setTimeout(wait, 10); wait(); }})"
        )

    def texts(self, selector):
        return self.run(f"[...document.querySelectorAll({json.dumps(selector)})].map((one) => one.textContent)")

    def press(self, key):
        """Types a key where the focus is."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)


@contextmanager
def chromium(profile):
    """A page of a browser of its own, whose files go to the folder `profile`; the test skips where there is none."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip(f"no browser is installed: {', '.join(PROGRAMS)}")
    (read, to_browser), (from_browser, write) = os.pipe(), os.pipe()
    # The browser reads from descriptor 3 and writes to 4, whatever they are here.
    shell = f'exec "$0" "$@" 3<&{read} 4>&{write}'
    process = subprocess.Popen(
        ["bash", "-c", shell, program, *OPTIONS, f"--user-data-dir={profile}", "about:blank"],
        pass_fds=[read, write], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        os.close(read), os.close(write)
        yield Page(to_browser, from_browser)
    finally:
        process.terminate()
        process.wait(SECONDS)
        os.close(to_browser), os.close(from_browser)
