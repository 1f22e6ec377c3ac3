"""Commands on a connection of the calling thread: what every task of a shard asks has to be cheap."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, cast

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, RedisError, ResponseError

from ditto_tasks.lua_source import lua_digest

if TYPE_CHECKING:
    from redis import Redis

Argument: TypeAlias = "str | bytes | int"
Command: TypeAlias = "tuple[Argument, ...]"

RESTED_S: Final = 0.05  # a connection that was used since then is taken for good


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """A script with its keys and arguments; it must be idempotent, for it may be sent twice."""

    text: str
    sha1: str
    rest: tuple[Argument, ...] = ()

    @classmethod
    def of(cls, text: str) -> Self:
        return cls(text, lua_digest(text))

    def bind(self, keys: Sequence[str], arguments: Sequence[Argument]) -> ScriptCall:
        return ScriptCall(self.text, self.sha1, (len(keys), *keys, *arguments))


class Lines:
    """One connection a thread, which skips a pooled client's checks before and after each command.

    A pooled client asks the socket before each use whether it is still good. Here only a connection that
    rested is asked; one that turns out to be broken is replaced.
    """

    def __init__(self, client: Redis) -> None:
        self._pool = client.connection_pool
        self._mine = threading.local()

    def run(self, *calls: ScriptCall) -> list[Any]:  # whatever scripts answer
        """The answers of all calls, in one round trip; sent once more if the connection was broken."""
        answers = self.ask([("EVALSHA", call.sha1, *call.rest) for call in calls], again=True)
        for place, answer in enumerate(answers):
            if isinstance(answer, NoScriptError):  # first use on this server; it keeps the script from now on
                call = calls[place]
                (answers[place],) = self.ask([("EVAL", call.text, *call.rest)], again=True)
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    def ask(self, commands: Sequence[Command], *, again: bool) -> list[Any]:  # as above
        """The answers of all commands, the server's errors among them, in one round trip.

        Raises the connection's errors. `again`: if a connection that was good breaks, a new one is tried.
        """
        was_good = self._line().is_good
        try:
            return self._ask(commands)
        except (RedisConnectionError, OSError) as error:
            if not (again and was_good) or isinstance(
                error.__context__, BlockingIOError
            ):  # that is a time-out
                raise
            return self._ask(commands)

    def _ask(self, commands: Sequence[Command]) -> list[Any]:
        line = self._line()
        connection, line.is_good = line.connection, False
        wait_in_kernel(connection._sock)
        try:
            connection.send_packed_command(connection.pack_commands(commands))
            answers = [_answer(connection) for _ in commands]
        except BaseException:
            connection.disconnect()  # half-read answers must not become those of the next call
            raise
        line.is_good, line.used_s = True, time.monotonic()
        return answers

    def _line(self) -> _Line:
        line: _Line | None = getattr(self._mine, "line", None)
        if line is None or line.pid != os.getpid():
            line = self._mine.line = _Line(cast("Any", self._pool.get_connection()), os.getpid())
        elif line.is_good and time.monotonic() - line.used_s > RESTED_S and _is_broken(line.connection):
            line.is_good = False
            line.connection.disconnect()  # it connects again when it is written to
        return line


def wait_in_kernel(sock: socket.socket | None) -> None:
    """Let the kernel keep the time limit of a plain socket, where Python would poll before each call.

    Each poll hands the interpreter to another thread and waits to get it back. A limit that has passed
    shows itself as BlockingIOError.
    """
    limit_s = sock.gettimeout() if type(sock) is socket.socket else None
    if sock is not None and limit_s:
        limit = struct.pack("ll", int(limit_s), int(limit_s % 1 * 1_000_000))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        sock.settimeout(None)


@dataclass(slots=True, eq=False)
class _Line:
    connection: Any  # redis-py's connections have no public type
    pid: int
    is_good: bool = False  # it has answered the last commands
    used_s: float = 0.0


def _is_broken(connection: Any) -> bool:  # as above
    try:
        return bool(connection.can_read())  # nothing was asked: what can be read is the connection's end
    except (RedisError, OSError):
        return True


def _answer(connection: Any) -> Any:  # as above
    try:
        return connection.read_response()
    except ResponseError as error:
        return error
