"""The four nodes by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

from ditto_tasks.context.base import ContextExecution
from ditto_tasks.context.checks import Fields
from ditto_tasks.context.inputs import CompressInput, LoadInput, SelectInput, UpdateInput
from ditto_tasks.context.models import Context, ContextSelection
from ditto_tasks.context.nodes.compress import compress_node_steps
from ditto_tasks.context.nodes.load import load_steps
from ditto_tasks.context.nodes.select import select_steps
from ditto_tasks.context.nodes.update import update_steps
from ditto_tasks.context.steps import Steps
from ditto_tasks.errors import ContextError

ContextResult: TypeAlias = Context | ContextSelection

LOAD: Final = "CONTEXT.LOAD"
SELECT: Final = "CONTEXT.SELECT"
UPDATE: Final = "CONTEXT.UPDATE"
COMPRESS: Final = "CONTEXT.COMPRESS"


@dataclass(frozen=True, slots=True)
class ContextNode:
    """`run` takes the wire fields of an explicit call and validates them before any work."""

    type: str
    run: Callable[[Fields, ContextExecution], Steps[Context] | Steps[ContextSelection]]


def _load(fields: Fields, execution: ContextExecution) -> Steps[Context]:
    return load_steps(LoadInput.parse(fields), execution)


def _select(fields: Fields, execution: ContextExecution) -> Steps[ContextSelection]:
    return select_steps(SelectInput.parse(fields), execution)


def _update(fields: Fields, execution: ContextExecution) -> Steps[Context]:
    return update_steps(UpdateInput.parse(fields), execution)


def _compress(fields: Fields, execution: ContextExecution) -> Steps[Context]:
    return compress_node_steps(CompressInput.parse(fields), execution)


_NODES: Final = (
    ContextNode(LOAD, _load),
    ContextNode(SELECT, _select),
    ContextNode(UPDATE, _update),
    ContextNode(COMPRESS, _compress),
)
CONTEXT_NODES: Final[Mapping[str, ContextNode]] = MappingProxyType({node.type: node for node in _NODES})


def find_node(node: object) -> ContextNode:
    found = CONTEXT_NODES.get(node) if isinstance(node, str) else None
    if found is None:
        raise ContextError("UNKNOWN_NODE", f"a CONTEXT node is one of {', '.join(CONTEXT_NODES)}")
    return found
