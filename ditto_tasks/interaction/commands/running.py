"""Runs one command with bounded time and output; what exceeds a bound is cut, and it is said."""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from ditto_tasks.interaction.base import ActionCall, ToolError

MAX_LINES: Final = 1_000
MAX_OUT_BYTES: Final = 65_536
MAX_ERR_BYTES: Final = 8_192
BIN: Final = "/usr/local/bin:/usr/bin:/bin"
POLL_S: Final = 0.05
CHUNK: Final = 65_536
# nothing of the worker's own environment, which holds its credentials
ENVIRONMENT: Final = {"PATH": BIN, "LC_ALL": "C.UTF-8", "TZ": "UTC"}


@dataclass(frozen=True)
class Finished:
    """What a command gave; ``status`` is None when it was stopped because its output was full."""

    status: int | None
    out: str
    err: str
    truncated: bool


class Gathering:
    """The beginning of one stream."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.data = b""
        self.is_full = False

    def add(self, chunk: bytes) -> None:
        """Keep what still fits."""
        room = self.limit - len(self.data)
        self.data += chunk[:room]
        self.is_full = self.is_full or len(chunk) > room


def run_command(name: str, arguments: list[str], workspace: Path, call: ActionCall) -> Finished:
    """Run it in the workspace; raises ToolError when it isn't there or does not end in time."""
    binary = shutil.which(name, path=BIN)
    if binary is None:
        raise ToolError("COMMAND_UNAVAILABLE", f"this worker has no {name}")
    process = subprocess.Popen(  # noqa: S603 - a listed binary, checked arguments, no shell
        [binary, *arguments],
        cwd=workspace,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = _gather(process, call)
    finally:
        _stop(process)
    text, cut = first_lines(decoded(out))
    status = None if out.is_full else process.returncode
    return Finished(status, text, decoded(err), cut or out.is_full or err.is_full)


def _gather(process: subprocess.Popen[bytes], call: ActionCall) -> tuple[Gathering, Gathering]:
    out, err = Gathering(MAX_OUT_BYTES), Gathering(MAX_ERR_BYTES)
    with selectors.DefaultSelector() as selector:
        for stream, gathering in ((process.stdout, out), (process.stderr, err)):
            if stream is not None:
                selector.register(stream, selectors.EVENT_READ, gathering)
        while selector.get_map() and not out.is_full:
            call.remaining_s()
            for key, _ in selector.select(POLL_S):
                _read(selector, key)
    while not out.is_full and process.poll() is None:
        call.remaining_s()
        _wait(process)
    return out, err


def _read(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    chunk = os.read(key.fd, CHUNK)
    if chunk:
        key.data.add(chunk)
    else:
        selector.unregister(key.fileobj)


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(POLL_S)
    except subprocess.TimeoutExpired:
        return


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Kill what still runs, its children included, and close the pipes."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for stream in (process.stdout, process.stderr):
        _close(stream)


def _close(stream: IO[bytes] | None) -> None:
    if stream is not None:
        stream.close()


def decoded(gathering: Gathering) -> str:
    """Return the text; a character that the cut split is left out, other bad bytes are replaced."""
    data = gathering.data
    if gathering.is_full:
        for cut in range(1, 4):
            if len(data) >= cut and data[-cut] >= 0xC0:  # the first byte of a character
                data = data[:-cut] if _is_split(data[-cut:]) else data
                break
    return data.decode("utf-8", "replace")


def _is_split(tail: bytes) -> bool:
    try:
        tail.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return False


def first_lines(text: str) -> tuple[str, bool]:
    """Return at most 1,000 lines, and whether some were cut."""
    lines = text.splitlines(keepends=True)
    return "".join(lines[:MAX_LINES]), len(lines) > MAX_LINES
