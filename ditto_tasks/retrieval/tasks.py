"""The RETRIEVAL task, as a handler that knows no Celery."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ditto_tasks.interruptions import READS, AskingToken
from ditto_tasks.json_values import JsonValue
from ditto_tasks.models import to_wire
from ditto_tasks.task import Handler, TaskCall


def search(call: TaskCall) -> JsonValue:
    """Run RETRIEVAL.SEARCH; its failure is a failed NodeResult."""
    nodes, token = call.dependencies.retrieval(), AskingToken(call.interruption)
    result = READS.run(
        lambda: nodes.execute(call.node, call.wire, execution_id=call.task_id, token=token), token
    )
    return to_wire(result)


HANDLERS: Final[Mapping[str, Handler]] = MappingProxyType({"RETRIEVAL.SEARCH": search})
