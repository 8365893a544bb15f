"""A page in a real, headless Chromium that reaches no host: opened, operated with the mouse, and read."""

from __future__ import annotations

import base64
import itertools
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

CHROMIUM = which("chromium") or which("chromium-browser") or which("google-chrome")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (apt-get install chromium)")
_PATIENCE_S = 60.0


class Page:
    """An open page: what it logged, what it requested, and its user."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket, self._numbers = socket, itertools.count(1)
        self._session: str | None = None
        self.messages: list[str] = []
        """What the console shows: errors of scripts, and what the policy refused."""
        self.requests: list[str] = []
        """Every address that was requested."""
        self._loaded = False

    def start(self, url: str) -> None:
        """Open an address in a tab, and wait until it has loaded."""
        tab = self._call("Target.createTarget", url="about:blank", newWindow=True, width=1200, height=1600)["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=tab, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")
        self._loaded = False
        self._call("Page.navigate", url=url)
        while not self._loaded:
            self._receive()

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        session = {"sessionId": self._session} if self._session else {}
        self._socket.send(json.dumps({"id": number, "method": method, "params": params, **session}))
        while True:
            message = self._receive()
            if message.get("id") == number:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result

    def _receive(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._socket.recv(_PATIENCE_S))
        params = message.get("params", {})
        match message.get("method"):
            case "Page.loadEventFired":
                self._loaded = True
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Runtime.exceptionThrown":
                self.messages.append(str(params["exceptionDetails"]))
            case "Log.entryAdded":
                self.messages.append(params["entry"]["text"])
            case "Runtime.consoleAPICalled":
                self.messages.append(str(params["args"]))
        return message

    def value(self, script: str) -> Any:
        """The value of an expression in the page; a promise is waited for."""
        done = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def mouse(self, kind: str, x: float, y: float, *, button: str = "none", clicks: int = 0) -> None:
        """An event of the mouse, at a place in the window."""
        self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, clickCount=clicks)

    def place(self, selector: str) -> tuple[float, float, float, float]:
        """Left, top, width and height of an element in the window, into which it is scrolled."""
        find = f"document.querySelector({json.dumps(selector)})"
        box = self.value(
            f"{find}.scrollIntoView({{block: 'center'}}), (r => [r.left, r.top, r.width, r.height])"
            f"({find}.getBoundingClientRect())"
        )
        left, top, width, height = box
        return left, top, width, height

    def click(self, selector: str) -> None:
        """Click in the middle of an element."""
        left, top, width, height = self.place(selector)
        at = (left + width / 2, top + height / 2)
        self.mouse("mouseMoved", *at)
        self.mouse("mousePressed", *at, button="left", clicks=1)
        self.mouse("mouseReleased", *at, button="left", clicks=1)

    def drag(self, selector: str, begin: float, end: float) -> None:
        """Drag over an element from one share of its width to another, at half its height."""
        left, top, width, height = self.place(selector)
        y = top + height / 2
        self.mouse("mouseMoved", left + begin * width, y)
        self.mouse("mousePressed", left + begin * width, y, button="left", clicks=1)
        for step in range(1, 5):
            self.mouse("mouseMoved", left + (begin + (end - begin) * step / 4) * width, y, button="left")
        self.mouse("mouseReleased", left + end * width, y, button="left", clicks=1)

    def picture(self, file: Path) -> None:
        """Write what the whole page looks like."""
        shot = self._call("Page.captureScreenshot", captureBeyondViewport=True, clip=self._whole())
        file.write_bytes(base64.b64decode(shot["data"]))

    def _whole(self) -> dict[str, float]:
        size = self._call("Page.getLayoutMetrics")["cssContentSize"]
        return {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}


@contextmanager
def opened(file: Path, folder: Path) -> Iterator[Page]:
    """A page of a file, in a browser whose profile is `folder`."""
    assert CHROMIUM is not None
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder}", "--remote-debugging-port=0",
        "--disable-background-networking",
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as browser:
        try:
            assert browser.stderr is not None
            listening = next(line for line in browser.stderr if line.startswith("DevTools listening on "))
            with connect(listening.split()[-1], max_size=None, proxy=None) as socket:
                page = Page(socket)
                page.start(file.as_uri())
                yield page
        finally:
            browser.kill()
