"""Runs the Lua scripts of this package by their names: a text goes over the wire once a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from ditto_tasks.lua_source import lua_script

_UNKNOWN: Final = "NoScriptError"  # by name: importing the driver is for those who connect


class ScriptClient(Protocol):
    """The part of a Redis client that running a script needs."""

    def eval(self, script: str, numkeys: int, *keys_and_args: str | bytes | int) -> object: ...
    def evalsha(self, sha: str, numkeys: int, *keys_and_args: str | bytes | int) -> object: ...


def run_script(
    client: ScriptClient, package: str, name: str, keys: Sequence[str], *args: str | bytes | int
) -> object:
    """The reply of `<package>/lua/<name>.lua`; raises the client's errors."""
    return run_source(client, *lua_script(package, name), keys, *args)


def run_source(
    client: ScriptClient, source: str, sha1: str, keys: Sequence[str], *args: str | bytes | int
) -> object:
    """The reply of a script by its text and digest; raises the client's errors."""
    try:
        return client.evalsha(sha1, len(keys), *keys, *args)
    except Exception as error:
        if not is_unknown_script(error):
            raise
    # first use on this server, or since it restarted; it keeps the script from now on
    return client.eval(source, len(keys), *keys, *args)


def is_unknown_script(answer: object) -> bool:
    """Whether a server says that it does not know the script of a digest."""
    return type(answer).__name__ == _UNKNOWN
