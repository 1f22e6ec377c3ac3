"""What Flower is started with: a credential, the loopback address, no route to results."""

from importlib import import_module
from typing import Any, Final

from ditto_tasks.errors import SettingsError
from ditto_tasks.settings import Settings, load_settings

# Creating tasks would pass by the checks of a Ditto client; results hold content of messages.
CLOSED_ROUTES: Final = ("apply", "async-apply", "send-task", "result", "abort")

# for Flower's --conf, which wants a file of assignments
CONFIG_FILE: Final = """\
from ditto_tasks.cli.flower import flower_options

globals().update(flower_options())
"""


def flower_options(settings: Settings | None = None) -> dict[str, object]:
    """Flower's options by name.

    SettingsError when there is no credential to ask visitors for, unless the settings want none.
    """
    settings = load_settings() if settings is None else settings
    access = _access(settings)
    close_task_routes()
    guard_metrics()
    return {
        **access,
        "address": "127.0.0.1",
        "read_only": True,
        "persistent": True,
        "max_tasks": 10_000,
    }


def _access(settings: Settings) -> dict[str, object]:
    credential = settings.connections.flower_basic_auth
    if credential is not None:
        return {"basic_auth": [credential.get_secret_value()]}
    if settings.connections.flower_without_auth:
        return {}
    reason = "is not set; Flower does not start without a credential (user:password)"
    raise SettingsError("INVALID_SETTINGS", f"DITTO_FLOWER_BASIC_AUTH: {reason}")


def close_task_routes() -> None:
    """Take the routes in CLOSED_ROUTES out of Flower's table, before its application is made."""
    handlers: list[Any] = import_module("flower.urls").handlers  # Flower's table has no type
    closed = tuple(f"/api/task/{route}/" for route in CLOSED_ROUTES)
    handlers[:] = [handler for handler in handlers if not _path(handler).startswith(closed)]


def guard_metrics() -> None:
    """Ask for the credential at /metrics as well: its labels name workers and tasks."""
    handler: Any = import_module("flower.views.monitor").Metrics
    if not hasattr(handler.get, "__wrapped__"):  # once a process
        handler.get = import_module("tornado.web").authenticated(handler.get)


def _path(handler: Any) -> str:  # a tuple or tornado's URLSpec
    return str(handler[0] if isinstance(handler, tuple) else handler.regex.pattern)
