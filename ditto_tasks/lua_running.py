"""Runs the Lua scripts of this package by their names: a text goes over the wire once a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from redis.exceptions import NoScriptError

from ditto_tasks.lua_source import lua_sha1, lua_source


class ScriptClient(Protocol):
    """The part of a Redis client that running a script needs."""

    def eval(self, script: str, numkeys: int, *keys_and_args: str | bytes | int) -> object: ...
    def evalsha(self, sha: str, numkeys: int, *keys_and_args: str | bytes | int) -> object: ...


def run_script(
    client: ScriptClient, package: str, name: str, keys: Sequence[str], *args: str | bytes | int
) -> object:
    """The reply of `<package>/lua/<name>.lua`; raises the client's errors."""
    try:
        return client.evalsha(lua_sha1(package, name), len(keys), *keys, *args)
    except NoScriptError:  # first use on this server, or since it restarted; it keeps the script from now on
        return client.eval(lua_source(package, name), len(keys), *keys, *args)
