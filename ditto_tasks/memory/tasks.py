"""The MEMORY tasks, as handlers that know no Celery."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ditto_tasks.json_values import JsonValue
from ditto_tasks.models import to_wire
from ditto_tasks.task import Handler, TaskCall


def run(call: TaskCall) -> JsonValue:
    """Run the node of ``call``; its failure is a failed NodeResult."""
    return to_wire(
        call.dependencies.memory().execute(
            call.node, call.wire, execution_id=call.task_id, operation_id=call.operation_id, token=call.token
        )
    )


def run_unless_interrupted(call: TaskCall) -> JsonValue:
    """As ``run``, for nodes that change nothing: a call that was cancelled is not worth its work."""
    reason = call.interruption()
    if reason is not None:
        call.token.cancel(reason)
    return run(call)


# a change that was committed is never reported as cancelled, so changes don't ask
HANDLERS: Final[Mapping[str, Handler]] = MappingProxyType(
    {
        "MEMORY.GET": run_unless_interrupted,
        "MEMORY.QUERY": run_unless_interrupted,
        "MEMORY.SEARCH": run_unless_interrupted,
        "MEMORY.WRITE": run,
        "MEMORY.UPDATE": run,
        "MEMORY.DELETE": run,
    }
)
