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


def load_node(
    input: LoadInput | JsonObject,  # noqa: A002 -- the name that the specification gives it
    execution: ContextExecution,
) -> Context:
    """Sources as a context."""
    return drive(load_steps(LoadInput.parse(input), execution))


def select_node(
    input: SelectInput | JsonObject,  # noqa: A002 -- the name that the specification gives it
    execution: ContextExecution,
) -> ContextSelection:
    """The best items for a purpose."""
    return drive(select_steps(SelectInput.parse(input), execution))


def update_node(
    input: UpdateInput | JsonObject,  # noqa: A002 -- the name that the specification gives it
    execution: ContextExecution,
) -> Context:
    """The context after removals, additions and ingress."""
    return updated(UpdateInput.parse(input), execution.policy)


def compress_node(
    input: CompressInput | JsonObject,  # noqa: A002 -- the name that the specification gives it
    execution: ContextExecution,
) -> Context:
    """The context within its budgets."""
    return drive(compress_node_steps(CompressInput.parse(input), execution))
