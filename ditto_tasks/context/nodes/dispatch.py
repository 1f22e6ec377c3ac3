"""From a node's name and its input to the steps that run it."""

from __future__ import annotations

from collections.abc import Callable

from ditto_tasks.context.base import ContextExecution
from ditto_tasks.context.checks import Fields, an_object, refuse
from ditto_tasks.context.inputs import NodeInput, check_resolve_references
from ditto_tasks.context.models import Context, ContextSelection
from ditto_tasks.context.nodes.scoped import ScopedCall
from ditto_tasks.context.nodes.table import LOAD, ContextResult, find_node
from ditto_tasks.context.steps import Steps
from ditto_tasks.errors import ContextError

Drive = Callable[[Steps[ContextResult]], object]


def dispatch(node: object, value: object, execution: ContextExecution, drive: Drive) -> Steps[ContextResult]:
    """The steps of one call; `drive` runs those that a queue starts later."""
    execution.checkpoint()
    found = find_node(node)
    fields = input_fields(value)
    if found.type == LOAD:
        check_resolve_references(fields)
    if "scope" in fields:
        return (yield from _scoped(ScopedCall.of(found, fields, execution), drive))
    if "expectedVersion" in fields:
        raise refuse("/expectedVersion", "needs a scope")
    result = yield from found.run(fields, execution)
    execution.checkpoint()
    return result


def input_fields(value: object) -> Fields:
    """The input's wire fields; those of an input model stay models, which need no second check."""
    if isinstance(value, NodeInput):
        keys = type(value).model_fields
        return {keys[name].alias or name: value.__dict__[name] for name in value.model_fields_set}
    return an_object(value, "")


def _scoped(call: ScopedCall, drive: Drive) -> Steps[ContextResult]:
    queue = call.execution.services.operation_queue
    if queue is None:
        return (yield from call.steps())
    answer = yield lambda: queue.enqueue(call.scope, lambda: drive(call.steps()), call.execution.call)
    if not isinstance(answer, (Context, ContextSelection)):
        raise ContextError("INVALID_PROVIDER_OUTPUT", "the queue did not answer what the operation answered")
    return answer
