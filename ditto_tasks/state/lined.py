"""The store of a worker's tasks, on a connection a thread: a task is little more than its round trips."""

from __future__ import annotations

from collections.abc import Sequence

from redis import Redis
from redis.exceptions import NoScriptError

from ditto_tasks.lines import Command, Lines
from ditto_tasks.state.commands import Commands, ForeignClient, as_bytes
from ditto_tasks.state.redis import RedisCommands, RedisContextStore, StateClient
from ditto_tasks.state.scripts import Script


class LinedContextStore(RedisContextStore):
    """`RedisContextStore` for a client of this process's own: each thread keeps a connection of its pool.

    A read that meets a broken connection is asked again, as a pool would have noticed it; a write never is.
    """

    @staticmethod
    def _commands_of(client: StateClient | ForeignClient) -> Commands:
        if isinstance(client, Redis):
            return LinedCommands(client)
        return RedisContextStore._commands_of(client)


class LinedCommands(RedisCommands):
    """Commands without redis-py's pool around each of them."""

    def __init__(self, client: Redis) -> None:
        super().__init__(client)
        self._lines = Lines(client)

    def get(self, key: str) -> bytes | None:
        (reply,) = self._lines.ask([("GET", key)], again=True)
        if isinstance(reply, Exception):
            raise reply
        return as_bytes(reply)

    def _run(self, script: Script, keys: Sequence[str], arguments: Sequence[str | bytes]) -> object:
        rest = (len(keys), *keys, *arguments)
        (reply,) = self._lines.ask([("EVALSHA", script.sha1, *rest)], again=script.only_reads)
        if isinstance(reply, NoScriptError):
            (reply,) = self._lines.ask([("EVAL", script.text, *rest)], again=script.only_reads)
        if isinstance(reply, Exception):
            raise reply
        return reply

    def _ask(self, *commands: Command) -> list[object]:
        return self._lines.ask(commands, again=False)
