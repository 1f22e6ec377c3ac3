"""The RETRIEVAL task, as a handler that knows no Celery."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ditto_tasks.interruptions import AskingToken
from ditto_tasks.json_values import JsonValue
from ditto_tasks.models import to_wire
from ditto_tasks.task import Handler, TaskCall


def search(call: TaskCall) -> JsonValue:
    """Run RETRIEVAL.SEARCH; its failure is a failed NodeResult."""
    nodes, token = call.dependencies.retrieval(), AskingToken(call.interruption)
    return to_wire(nodes.execute(call.node, call.wire, execution_id=call.task_id, token=token))


HANDLERS: Final[Mapping[str, Handler]] = MappingProxyType({"RETRIEVAL.SEARCH": search})
