"""Child processes of `ditto up`: started together, stopped in an orderly way, never left behind."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Final, Self

GRACE_S: Final = 30.0  # a worker finishes the tasks in hand within this, or is killed
POLL_S: Final = 0.1

# Asks the kernel for SIGKILL when the parent dies, so that even `kill -9` on it leaves nothing behind.
# Linux only; elsewhere an orderly stop still ends the children.
_LAUNCHER: Final = f"""
import ctypes, os, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, {signal.SIGKILL:d})
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


@dataclass
class StopRequest:
    """Turns Ctrl-C and SIGTERM into a flag; the second request means at once."""

    event: threading.Event = field(default_factory=threading.Event)
    at_once: bool = False

    def install(self) -> Self:
        """Take over both signals for the rest of this process."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._received)
        return self

    def _received(self, *_: int | FrameType | None) -> None:
        self.at_once = self.event.is_set()
        self.event.set()


@dataclass
class Children:
    """Named child processes, each in a session of its own: a terminal's Ctrl-C reaches only the parent."""

    stop_request: StopRequest
    running: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)
    watched: dict[str, Callable[[], bool]] = field(default_factory=dict)  # what others start and stop

    def start(
        self, name: str, arguments: Iterable[str], env: Mapping[str, str], *, log: Path | None = None
    ) -> None:
        """Start `python arguments…`. Call it from the main thread: the child dies with the calling one.

        What it writes goes to `log`, else to this terminal.
        """
        launcher = [sys.executable, "-c", _LAUNCHER, str(os.getpid())]
        command = [*launcher, sys.executable, *arguments]
        with nullcontext() if log is None else log.open("ab") as output:
            self.running[name] = subprocess.Popen(  # noqa: S603 -- our own interpreter and modules
                command,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def ended(self) -> str | None:
        """The name of a child, or of something watched, that is no longer there."""
        gone = [name for name, is_there in self.watched.items() if not is_there()]
        gone += [name for name, child in self.running.items() if child.poll() is not None]
        return gone[0] if gone else None

    def wait(self, ready: Callable[[], bool] = lambda: False) -> str | None:
        """Return when a stop is requested (None), a child ended by itself (its name), or all is `ready`."""
        while not self.stop_request.event.wait(POLL_S):
            if (name := self.ended()) is not None:
                return name
            if ready():
                break
        return None

    def stop(self) -> None:
        """Ask all to end, wait, and kill what is still there."""
        self._signal(signal.SIGTERM)
        deadline = time.monotonic() + GRACE_S
        while self._alive() and time.monotonic() < deadline and not self.stop_request.at_once:
            time.sleep(POLL_S)
        self._signal(signal.SIGKILL)
        for child in self.running.values():
            child.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _alive(self) -> bool:
        return any(child.poll() is None for child in self.running.values())

    def _signal(self, number: signal.Signals) -> None:
        for child in self.running.values():
            if child.poll() is None:
                with suppress(ProcessLookupError):  # it ended between the question and the signal
                    os.killpg(child.pid, number)
