"""Lua scripts as they stand beside the code that calls them: one operation a file."""

import hashlib
from functools import cache
from importlib.resources import files
from typing import NamedTuple


class LuaScript(NamedTuple):
    """A script, and the name under which a server keeps it."""

    text: str
    sha1: str


@cache
def lua_source(package: str, name: str) -> str:
    """The text of `<package>/lua/<name>.lua`."""
    return (files(package) / "lua" / f"{name}.lua").read_text("utf-8")


@cache
def lua_script(package: str, name: str) -> LuaScript:
    """The script `<package>/lua/<name>.lua`."""
    text = lua_source(package, name)
    return LuaScript(text, lua_digest(text))


def lua_digest(text: str) -> str:
    """The name under which a server keeps a script."""
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
