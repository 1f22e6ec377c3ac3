"""Which records are whose: lists in the broker's database by which `ditto erase` finds what to remove.

A tenant has sessions; a session has calls, by the root of their canvas, and rows of batch runs; a root has
tasks, groups and effects. Each list is a sorted set: what it names -> when that has expired, by the
server's clock. Names are hashes and ids, so that the lists themselves tell nobody's name.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Final

from ditto_tasks.keys import Keys
from ditto_tasks.lua_source import LuaScript, lua_digest, lua_source

CANVAS_TTL_MS: Final = 48 * 3_600_000  # as long as the effects of its tasks are known
CALL: Final = "call:"
TASK: Final = "task:"
GROUP: Final = "group:"
EFFECT: Final = "effect:"
ROW: Final = "row:"


def notes(keys: Keys, owners: tuple[str, ...], name: str) -> Iterable[tuple[str, str]]:
    """(list, member) pairs: what a session has is on its list, and the session on its tenant's."""
    if owners:
        yield keys.owned(owners[0]), name
    for tenant in owners[1:]:
        yield keys.owned(tenant), owners[0]


@cache
def noting_script(name: str, package: str = "ditto_tasks") -> LuaScript:
    """A script of a package that adds to such lists."""
    text = lua_source("ditto_tasks", "noting") + lua_source(package, name)
    return LuaScript(text, lua_digest(text))
