"""An application with a node of its own, which raises what it should not: content and an address."""

from ditto_tasks.celery import create_app
from ditto_tasks.json_values import JsonValue
from ditto_tasks.nodes import NodeType
from ditto_tasks.task import TaskCall

NAME = "support.leaky_app"
NODE = "LEAK.RAW"
CANARY = "canary-4e2b"


def leak(call: TaskCall) -> JsonValue:
    raise RuntimeError(f"{CANARY} of {call.wire}, redis://user:{CANARY}@host")


HANDLERS = {NODE: leak}
ROWS = [NodeType(NODE, "LEAK", handlers=NAME)]
app = create_app(nodes=ROWS)
