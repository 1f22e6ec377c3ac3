"""Flower's options: no credential, no Flower; no route that creates tasks or shows results."""

import runpy
from pathlib import Path

import pytest

from ditto_tasks.cli.flower import CLOSED_ROUTES, flower_options
from ditto_tasks.errors import SettingsError
from ditto_tasks.settings import default_settings

CONFIG = Path(__file__).parents[2] / "config" / "flowerconfig.py"


def test_flower_does_not_start_without_a_credential(monkeypatch: pytest.MonkeyPatch) -> None:
    """The configuration file fails, naming the variable to set."""
    monkeypatch.delenv("DITTO_FLOWER_BASIC_AUTH", raising=False)
    with pytest.raises(SettingsError, match="DITTO_FLOWER_BASIC_AUTH"):
        runpy.run_path(str(CONFIG))


def test_the_configuration_file_gives_the_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower listens on the loopback address, asks for the credential and changes nothing."""
    monkeypatch.setenv("DITTO_FLOWER_BASIC_AUTH", "admin:secret")
    options = runpy.run_path(str(CONFIG))
    assert (options["address"], options["basic_auth"]) == ("127.0.0.1", ["admin:secret"])
    assert options["read_only"] is True


def test_routes_that_create_tasks_or_show_results_are_gone() -> None:
    """After the options were made, Flower's own table has none of the closed routes."""
    flower_options(default_settings({"DITTO_FLOWER_BASIC_AUTH": "a:b"}))
    from flower.urls import handlers  # the table that Flower's application is made from

    patterns = [str(handler[0]) for handler in handlers if isinstance(handler, tuple)]
    routes = {pattern.split("/")[3] for pattern in patterns if pattern.startswith("/api/task/")}
    assert "info" in routes
    assert not routes & set(CLOSED_ROUTES)
