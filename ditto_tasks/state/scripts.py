"""The Lua scripts of the store, ready to be sent by their SHA-1."""

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from typing import Self


@dataclass(frozen=True, slots=True)
class Script:
    """The text of a script and the name under which a server keeps it."""

    text: str
    sha1: str

    @classmethod
    def load(cls, *names: str) -> Self:
        """The last of the files, with the ones before it as its prelude."""
        folder = files("ditto_tasks.state") / "lua"
        text = "\n".join((folder / f"{name}.lua").read_text("utf-8") for name in names)
        return cls(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


@dataclass(frozen=True, slots=True)
class StateScripts:
    """All scripts on a state and its operation log."""

    compare_and_set: Script
    commit: Script
    refuse: Script
    recall: Script
    give_up: Script

    @classmethod
    def load(cls) -> Self:
        """Read them from the package."""
        log = ("matches", "remember")
        return cls(
            compare_and_set=Script.load("matches", "compare_and_set"),
            commit=Script.load(*log, "commit"),
            refuse=Script.load(*log, "refuse"),
            recall=Script.load(*log, "recall"),
            give_up=Script.load(*log, "give_up"),
        )
