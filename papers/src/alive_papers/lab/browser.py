"""A real Chromium, driven through a pipe by its own protocol, to test and measure the page: no package, no port."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from alive.errors import AliveError

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
OPTIONS = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-dev-shm-usage "
    "--hide-scrollbars --remote-debugging-pipe"
)
# The browser reads commands from descriptor 3 and answers on 4; what lies there first must not be lost.
LAUNCH = """
import os, sys
there, back = (os.dup(os.dup(os.dup(int(text)))) for text in sys.argv[1:3])
os.dup2(there, 3)
os.dup2(back, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
PATIENCE = 60.0  # seconds, on a machine that others use too


class Browser:
    """One browser with one page. `console` and `requests` hold what it logged and asked for."""

    def __init__(self, folder: Path) -> None:
        if CHROMIUM is None:
            raise AliveError("there is no chromium on the path", "apt-get install chromium, or another Chrome")
        (there, self._write), (self._read, back) = os.pipe(), os.pipe()
        self._number, self._rest = 0, b""
        self.console: list[str] = []
        self.requests: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-c", LAUNCH, str(there), str(back), CHROMIUM, *OPTIONS.split(),
             f"--user-data-dir={folder / 'profile'}"],
            pass_fds=(there, back),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(there)
        os.close(back)
        self._session: str | None = None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for part in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{part}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._session = None
        try:
            self.send("Browser.close")
            self._process.wait(20)
        except (OSError, AssertionError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._write)
        os.close(self._read)

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """One command, and what it gives."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE
        while True:
            answer = self._next(until)
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return dict(answer["result"])

    def _next(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(0.0, until - time.monotonic()))
            assert ready, "the browser does not answer"
            part = os.read(self._read, 1 << 20)
            assert part, "the browser is gone"
            self._rest += part
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._hear(message.get("method", ""), message.get("params", {}))
        return message

    def _hear(self, event: str, said: dict[str, Any]) -> None:
        if event == "Runtime.exceptionThrown":
            detail = said["exceptionDetails"]
            self.console.append(detail.get("exception", {}).get("description") or detail["text"])
        elif event == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning", "assert"):
            self.console.append(" ".join(str(arg.get("value", arg.get("description"))) for arg in said["args"]))
        elif event == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
            self.console.append(said["entry"]["text"])
        elif event == "Network.requestWillBeSent":
            self.requests.append(said["request"]["url"])

    def size(self, width: int, height: int, *, dark: bool = False, scale: float = 1) -> None:
        """Show the page as wide and high as this, light or dark."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, url: str) -> None:
        """Go to a page, whole and new even where only the part behind # differs."""
        self.send("Page.navigate", url="about:blank")
        self.send("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def ask(self, expression: str) -> Any:
        """The value of an expression of the page; a promise is waited for."""
        done = self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, json.dumps(done["exceptionDetails"])[:2000]
        return done["result"].get("value")

    def until(self, expression: str, patience: float = PATIENCE) -> Any:
        """Wait until an expression is true."""
        end = time.monotonic() + patience
        while not (found := self.ask(expression)):
            assert time.monotonic() < end, f"never: {expression}; {self.console}"
            time.sleep(0.02)
        return found

    def key(self, key: str) -> None:
        """Press a key."""
        text = {"Enter": "\r", " ": " "}.get(key, key if len(key) == 1 else "")
        code = {"ArrowRight": 39, "ArrowLeft": 37, "ArrowUp": 38, "ArrowDown": 40, "Enter": 13, " ": 32, "Tab": 9}.get(
            key, 0
        )
        for kind in ("keyDown", "keyUp"):
            more = {"text": text} if kind == "keyDown" and text else {}
            self.send("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **more)

    def click(self, x: float, y: float) -> None:
        """Click at a place of the window."""
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """Write a screenshot."""
        shot = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))
