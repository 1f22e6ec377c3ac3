"""Which records are whose: lists in the broker's database by which `ditto erase` finds what to remove.

A tenant has sessions; a session has calls, by the root of their canvas, and rows of batch runs; a root has
tasks, groups and effects. Each list is a sorted set: what it names -> when that has expired, by the
server's clock. Names are hashes and ids, so that the lists themselves tell nobody's name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ditto_tasks.keys import Keys
from ditto_tasks.lua_source import LuaScript, lua_script

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


def note_script() -> str:
    """Lua that adds ARGV[2] to the list KEYS[1] for ARGV[1] ms."""
    return noting_script("note").text


def noting_script(name: str) -> LuaScript:
    """A script of this package that adds to such lists."""
    return lua_script("ditto_tasks", "noting", name)
