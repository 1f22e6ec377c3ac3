"""Lua scripts as they stand beside the code that calls them: one operation a file."""

import hashlib
from functools import cache
from importlib.resources import files


@cache
def lua_source(package: str, name: str) -> str:
    """The text of `<package>/lua/<name>.lua`."""
    return (files(package) / "lua" / f"{name}.lua").read_text("utf-8")


@cache
def lua_sha1(package: str, name: str) -> str:
    """The name under which a server keeps the script."""
    return hashlib.sha1(lua_source(package, name).encode(), usedforsecurity=False).hexdigest()
