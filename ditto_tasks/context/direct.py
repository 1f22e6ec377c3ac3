"""The nodes as plain functions of an input and an execution: no scope, no state, no dispatch."""

from __future__ import annotations

from ditto_tasks.context.base import ContextExecution
from ditto_tasks.context.inputs import CompressInput, LoadInput, SelectInput, UpdateInput
from ditto_tasks.context.models import Context, ContextSelection
from ditto_tasks.context.nodes.compress import compress_node_steps
from ditto_tasks.context.nodes.load import load_steps
from ditto_tasks.context.nodes.select import select_steps
from ditto_tasks.context.nodes.update import updated
from ditto_tasks.context.steps import drive
from ditto_tasks.json_values import JsonObject


def load_node(request: LoadInput | JsonObject, execution: ContextExecution) -> Context:
    """Sources as a context."""
    return drive(load_steps(LoadInput.parse(request), execution))


def select_node(request: SelectInput | JsonObject, execution: ContextExecution) -> ContextSelection:
    """The best items for a purpose."""
    return drive(select_steps(SelectInput.parse(request), execution))


def update_node(request: UpdateInput | JsonObject, execution: ContextExecution) -> Context:
    """The context after removals, additions and ingress."""
    return updated(UpdateInput.parse(request), execution.policy)


def compress_node(request: CompressInput | JsonObject, execution: ContextExecution) -> Context:
    """The context within its budgets."""
    return drive(compress_node_steps(CompressInput.parse(request), execution))
