"""The INFER nodes as tasks: a failed node is a successful task with a failed NodeResult."""

from collections.abc import Mapping

from ditto_tasks.infer.base import InferCall
from ditto_tasks.infer.nodes import NODE_TYPES
from ditto_tasks.json_values import JsonValue
from ditto_tasks.models import to_wire
from ditto_tasks.task import Handler, TaskCall


def run(call: TaskCall) -> JsonValue:
    """Run one INFER node; its execution id is the task's."""
    reason = call.interruption()
    if reason is not None:
        call.token.cancel(reason)
    limits = InferCall(token=call.token)
    return to_wire(
        call.dependencies.infer().execute(call.node, call.wire, execution_id=call.task_id, call=limits)
    )


HANDLERS: Mapping[str, Handler] = dict.fromkeys(NODE_TYPES, run)
