"""An extension of a worker in tests: a tool that does whatever a tool should not do."""

import sys
import threading
from collections.abc import Callable

from ditto_tasks.extensions import Extension
from ditto_tasks.interaction.base import ActionCall, Tool, ToolOutput
from ditto_tasks.json_values import JsonObject
from ditto_tasks.settings import Settings

NAME = "support.odd_tools_extension:odd_tools"
CANARY = "canary-of-a-tool"
SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"how": {"type": "string"}, "times": {"type": "integer", "minimum": 1}},
    "required": ["how"],
    "additionalProperties": False,
}


def _hang() -> object:
    threading.Event().wait(600)
    return "late"


def _raise() -> object:
    raise RuntimeError(CANARY)


def _deep() -> object:
    value: dict[str, object] = {}
    for _ in range(5_000):
        value = {"in": value}
    return value


def _recurse() -> object:
    return _recurse()


WAYS: dict[str, Callable[[], object]] = {
    "hang": _hang,
    "raise": _raise,
    "exit": lambda: sys.exit(3),
    "nan": lambda: {"value": float("nan")},
    "infinite": lambda: ToolOutput(structured_content={"value": float("inf")}),
    "50 MB": lambda: "x" * 50_000_000,
    "50 MB of objects": lambda: {"rows": [{"value": at} for at in range(3_000_000)]},
    "no json": lambda: {"value": object()},
    "number keys": lambda: {1: "x"},
    "none": lambda: None,
    "nothing": lambda: ToolOutput(),
    "deep": _deep,
    "recursion": _recurse,
    "fine": lambda: "fine",
}


def odd_tools(_settings: Settings) -> Extension:
    """The tool `odd`."""

    def run(arguments: JsonObject, call: ActionCall) -> object:
        return WAYS[str(arguments["how"])]()

    return Extension(
        interaction={"tools": [Tool(name="odd", description="Odd.", input_schema=SCHEMA, run=run)]}
    )
