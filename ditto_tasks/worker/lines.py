"""Script calls on a connection of the calling thread: what a shard's every task costs has to be cheap."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeAlias, cast

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, ResponseError

if TYPE_CHECKING:
    from redis import Redis

Argument: TypeAlias = "str | bytes | int"


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """A script with its keys and arguments; it must be idempotent, for it may be sent twice."""

    text: str
    sha1: str
    rest: tuple[Argument, ...] = ()

    @classmethod
    def of(cls, text: str) -> Self:
        return cls(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())

    def bind(self, keys: Sequence[str], arguments: Sequence[Argument]) -> ScriptCall:
        return ScriptCall(self.text, self.sha1, (len(keys), *keys, *arguments))


class Lines:
    """One connection a thread, which skips a pooled client's checks before and after each command.

    A pooled client asks the socket before each use whether it is still good. Here a connection that
    turns out to be broken is replaced, and the calls are sent once more.
    """

    def __init__(self, client: Redis) -> None:
        self._pool = client.connection_pool
        self._mine = threading.local()

    def run(self, *calls: ScriptCall) -> list[Any]:  # whatever scripts answer
        """The answers of all calls, in one round trip."""
        try:
            return self._run(calls)
        except (RedisConnectionError, OSError):
            return self._run(calls)

    def _run(self, calls: Sequence[ScriptCall]) -> list[Any]:
        answers = self._ask([("EVALSHA", call.sha1, *call.rest) for call in calls])
        for place, answer in enumerate(answers):
            if isinstance(answer, NoScriptError):  # first use on this server; it keeps the script from now on
                (answers[place],) = self._ask([("EVAL", calls[place].text, *calls[place].rest)])
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    def _ask(self, commands: Sequence[tuple[Argument, ...]]) -> list[Any]:
        connection = self._connection()
        try:
            connection.send_packed_command(connection.pack_commands(commands))
            return [_answer(connection) for _ in commands]
        except BaseException:
            connection.disconnect()  # half-read answers must not become those of the next call
            raise

    def _connection(self) -> Any:  # redis-py's connections have no public type
        connection = getattr(self._mine, "connection", None)
        if connection is None:
            connection = self._mine.connection = cast("Any", self._pool.get_connection())
        return connection


def _answer(connection: Any) -> Any:  # as above
    try:
        return connection.read_response()
    except ResponseError as error:
        return error
