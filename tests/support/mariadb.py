"""A private MariaDB on a unix socket, from the server on PATH."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from support.polling import eventually

START_S = 60.0


def programs() -> tuple[str, str] | None:
    """The server and the program that makes its files; None where there is no MariaDB."""
    path = f"{os.defpath}:/usr/sbin"
    # the last is called by the second, and comes in another package
    server, install, defaults = (
        shutil.which(name, path=path) for name in ("mariadbd", "mariadb-install-db", "my_print_defaults")
    )
    return (server, install) if server and install and defaults else None


class MariadbServer:
    """One server process; ``url`` names its database. As root it runs as nobody."""

    def __init__(self, server: str, install: str) -> None:
        self._server = server
        self._install = install
        self._directory = Path(tempfile.mkdtemp(prefix="ditto-my-"))
        self._user = "nobody" if os.geteuid() == 0 else None
        # a starting server deletes the temporary tables that it finds, those of another one as well
        self._env = {**os.environ, "TMPDIR": str(self._directory)}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"mysql://root@localhost/test?unix_socket={self._directory}/s"

    def __enter__(self) -> "MariadbServer":
        if self._user is not None:
            owner = pwd.getpwnam(self._user)
            os.chown(self._directory, owner.pw_uid, owner.pw_gid)
        install = [self._install, "--no-defaults", f"--datadir={self._directory}/data"]
        install += ["--auth-root-authentication-method=normal"]  # no password, on a socket of our own
        self._run(install)
        command = [self._server, "--no-defaults", f"--datadir={self._directory}/data", "--skip-networking"]
        command += [f"--socket={self._directory}/s", f"--pid-file={self._directory}/pid"]
        # nothing here must survive a power failure, and each test makes tables
        command += [
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-doublewrite=0",
        ]
        self._process = subprocess.Popen(
            command,
            user=self._user,
            cwd=self._directory,
            env=self._env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        eventually(self._greets, START_S, message="MariaDB did not get ready")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()  # its files go with it; a polite request is lost while it still starts
            self._process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _greets(self) -> bool:
        with suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(START_S)
            probe.connect(str(self._directory / "s"))
            return bool(probe.recv(1))  # the server speaks first
        return False

    def _run(self, command: list[str]) -> None:
        subprocess.run(
            command,
            user=self._user,
            cwd=self._directory,
            env=self._env,
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=START_S,
        )
