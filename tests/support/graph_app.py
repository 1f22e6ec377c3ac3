"""An application with nodes that do next to nothing, and functions that pass large values on."""

from collections.abc import Mapping
from typing import cast

from ditto_tasks.celery import create_app
from ditto_tasks.json_values import JsonObject, JsonValue
from ditto_tasks.nodes import NodeType
from ditto_tasks.pipelines.graph_functions import graph_function
from ditto_tasks.task import Handler, TaskCall

NAME = "support.graph_app"
NOTHING, MAKE, MEASURE = "BENCH.NOTHING", "BENCH.MAKE", "BENCH.MEASURE"


def nothing(call: TaskCall) -> JsonValue:
    return None


def make(call: TaskCall) -> JsonValue:
    """A text of so many characters."""
    return "x" * cast(int, call.wire["size"])


def measure(call: TaskCall) -> JsonValue:
    """How long all texts are."""
    return sum(len(cast(str, text)) for text in cast("list[JsonValue]", call.wire["texts"]))


@graph_function("bench.gather")
def gather(given: JsonValue, outputs: Mapping[str, JsonValue]) -> JsonObject:
    """All outputs as the input of one node."""
    return {"texts": list(outputs.values())}


HANDLERS: Mapping[str, Handler] = {NOTHING: nothing, MAKE: make, MEASURE: measure}
ROWS = [NodeType(name, "BENCH", handlers=NAME) for name in HANDLERS]
app = create_app(nodes=ROWS)
