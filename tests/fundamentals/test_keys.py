"""The names of a deployment's keys: spelled in one module, and all in the document."""

import inspect
import re
from pathlib import Path

from support.keys import documented_keys

import ditto_tasks
from ditto_tasks.keys import Keys

PACKAGE = Path(ditto_tasks.__file__).parent
SPELLED = re.compile(r"ditto:\{[^}]*(deployment|name)\b")
KEYS = Keys("d")
CHANNEL = KEYS.changes


def every_key() -> dict[str, str]:
    """A key of each kind, by the name of what makes it."""
    made = {}
    for name, member in inspect.getmembers(Keys):
        if isinstance(member, property):
            made[name] = getattr(KEYS, name)
        elif inspect.isfunction(member) and not name.startswith("_"):
            given = ["x"] * (len(inspect.signature(member).parameters) - 1)
            made[name] = member(KEYS, *given)
    return made


def test_keys_are_spelled_in_one_module() -> None:
    """No other module of the package has a key's name in it."""
    spelling = [path.name for path in PACKAGE.rglob("*.py") if SPELLED.search(path.read_text("utf-8"))]
    assert spelling == ["keys.py"]


def test_every_key_is_in_the_document() -> None:
    """Each kind of key matches a row of the table, and no two kinds have the same name."""
    keys = every_key()
    rows = documented_keys()
    named = {f"ditto:<deployment>{key.removeprefix('ditto:d')}": name for name, key in keys.items()}
    assert len(named) == len(keys)
    unknown = {
        name for name, key in keys.items() if key != CHANNEL and not any(row.matches(key) for row in rows)
    }
    assert unknown == set()
