"""The Lua scripts of the store, ready to be sent by their SHA-1."""

from dataclasses import dataclass, replace
from typing import Self

from ditto_tasks.lua_source import lua_digest, lua_source


@dataclass(frozen=True, slots=True)
class Script:
    """The text of a script and the name under which a server keeps it."""

    text: str
    sha1: str
    only_reads: bool = False

    @classmethod
    def load(cls, *names: str, **constants: str) -> Self:
        """The last of the files, with the constants and the files before it as its prelude.

        What never changes for a store is a constant: an argument would have to be sent with every call.
        """
        lines = [f"local {name} = {value}" for name, value in constants.items()]
        text = "\n".join([*lines, *(lua_source("ditto_tasks.state", name) for name in names)])
        return cls(text, lua_digest(text))


@dataclass(frozen=True, slots=True)
class StateScripts:
    """All scripts on a state and its operation log."""

    compare_and_set: Script
    commit: Script
    refuse: Script
    recall: Script
    give_up: Script

    @classmethod
    def load(cls, *, ttl_ms: int | None, log_ttl_ms: int, kept: int) -> Self:
        """Read them from the package, for logs of `kept` operations and states that a commit lets live
        `ttl_ms`, or for as long as they had to live anyhow (None).
        """
        constants = {
            "EXPIRY": "{'KEEPTTL'}" if ttl_ms is None else f"{{'PX', '{ttl_ms}'}}",
            "LOG_TTL_MS": f"'{log_ttl_ms}'",
            "KEPT": str(kept),
            "SWEEP": str(-(-kept // 4)),
        }

        def on_log(name: str) -> Script:
            return Script.load("matches", "remember", name, **constants)

        return cls(
            compare_and_set=Script.load("matches", "compare_and_set"),
            commit=on_log("commit"),
            refuse=on_log("refuse"),
            recall=replace(on_log("recall"), only_reads=True),
            give_up=on_log("give_up"),
        )
