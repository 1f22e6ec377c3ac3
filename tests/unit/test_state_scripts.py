"""The Lua of the store: short files, each explained, none of which looks inside a record."""

from importlib.resources import files

import pytest

from ditto_tasks.state.scripts import Script

FOLDER = files("ditto_tasks.state") / "lua"
NAMES = sorted(entry.name for entry in FOLDER.iterdir() if entry.name.endswith(".lua"))


@pytest.mark.parametrize("name", NAMES)
def test_a_script_is_short_and_explained(name: str) -> None:
    """A file has at most 45 lines, starts with a comment, and says what it takes and returns."""
    text = (FOLDER / name).read_text("utf-8")
    assert len(text.splitlines()) <= 45
    assert text.startswith("-- ")
    assert "Returns" in text or "Prelude" in text
    assert "KEYS" in text or "Prelude" in text


@pytest.mark.parametrize("name", NAMES)
def test_no_script_decodes_anything(name: str) -> None:
    """No code, comments apart, uses cjson or cmsgpack."""
    code = [line.split("--")[0] for line in (FOLDER / name).read_text("utf-8").splitlines()]
    assert not [line for line in code if "cjson" in line or "cmsgpack" in line]


def test_a_script_is_known_by_its_own_hash() -> None:
    """The SHA-1 belongs to the text with its constants and preludes."""
    one, two = (Script.load("matches", "compare_and_set", **constants) for constants in ({}, {"X": "1"}))
    assert two.text == f"local X = 1\n{one.text}"
    assert one.sha1 != two.sha1
