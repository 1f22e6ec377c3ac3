"""The MEMORY tasks, as handlers that know no Celery."""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from ditto_tasks.interruptions import READS, AskingToken
from ditto_tasks.json_values import JsonValue
from ditto_tasks.memory.nodes import WRITE
from ditto_tasks.models import to_wire
from ditto_tasks.task import Handler, TaskCall

NODE_TYPES: Final = (
    "MEMORY.GET",
    "MEMORY.QUERY",
    "MEMORY.SEARCH",
    WRITE,
    "MEMORY.UPDATE",
    "MEMORY.DELETE",
)
LONG_READS: Final = frozenset({"MEMORY.QUERY", "MEMORY.SEARCH"})


def run(call: TaskCall) -> JsonValue:
    """Run the node of ``call``; its failure is a failed NodeResult."""
    nodes, token = call.dependencies.memory(), AskingToken(call.interruption)
    if call.node == WRITE and (reason := call.interruption()) is not None:
        token.cancel(reason)  # its operation is looked up even so
    work = partial(
        nodes.execute,
        call.node,
        call.wire,
        execution_id=call.task_id,
        operation_id=call.operation_id,
        token=token,
    )
    return to_wire(READS.run(work, token) if call.node in LONG_READS else work())


HANDLERS: Final[Mapping[str, Handler]] = MappingProxyType(dict.fromkeys(NODE_TYPES, run))
