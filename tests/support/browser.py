"""A real headless Chromium, driven over its DevTools protocol."""

import base64
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx
from websockets.sync.client import ClientConnection, connect

from support.polling import eventually

NAMES = ("chromium", "chromium-browser", "google-chrome")
START_S = 30.0
SWITCHES = (
    "--headless=new",
    "--no-sandbox",  # the tests may run as root; the page is our own
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--remote-debugging-port=0",
    "--remote-allow-origins=*",
    "--window-size=1200,900",
)


def find_chromium() -> str | None:
    """The browser of this machine, if it has one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """One tab."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._numbers = count(1)
        self.said: list[dict[str, Any]] = []  # what the page and its network complained of
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """One command and its answer; events that come before it are kept."""
        number = next(self._numbers)
        self._connection.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._connection.recv(timeout=START_S))
            if message.get("id") == number:
                assert "error" not in message, message
                return dict(message["result"])
            if message.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.said.append(message["params"])

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def evaluate(self, script: str) -> Any:
        """The value of a JavaScript expression; promises are awaited."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, script: str, timeout_s: float = START_S) -> Any:
        """The first truthy value of an expression."""
        return eventually(lambda: self.evaluate(script), timeout_s, message=f"never true: {script}")

    def screenshot(self, path: Path) -> None:
        """The page as it looks now."""
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(picture["data"]))


@contextmanager
def browser(executable: str) -> Iterator[Page]:
    """A new browser with an empty profile, and its one tab."""
    with tempfile.TemporaryDirectory(prefix="ditto-chromium-", ignore_cleanup_errors=True) as profile:
        command = [executable, *SWITCHES, f"--user-data-dir={profile}", "about:blank"]
        with (Path(profile) / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            port = eventually(lambda: _port(Path(profile)), START_S)
            tabs = eventually(lambda: _tabs(port), START_S)
            with connect(tabs[0]["webSocketDebuggerUrl"], max_size=None) as connection:
                yield Page(connection)
        finally:
            process.terminate()
            process.wait(START_S)


def _port(profile: Path) -> int | None:
    found = profile / "DevToolsActivePort"
    first = re.match(r"\d+", found.read_text()) if found.exists() else None
    return int(first[0]) if first else None


def _tabs(port: int) -> list[dict[str, str]]:
    tabs = httpx.get(f"http://127.0.0.1:{port}/json").json()
    return [tab for tab in tabs if tab["type"] == "page"]
