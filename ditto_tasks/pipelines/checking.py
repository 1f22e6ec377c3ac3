"""Checking a whole canvas before any of it is published.

A step that can't be published would turn its predecessor, which has committed, into a failure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ditto_tasks.errors import DittoError, PipelineError
from ditto_tasks.nodes import NODES, NodeTable
from ditto_tasks.publishing import check_order, check_publish, check_size
from ditto_tasks.task import OPTIONS_KEY, parse_options


def check(canvas: Mapping[str, Any], nodes: NodeTable = NODES, *, shards: int = 64) -> None:
    """Raise what publishing any task of `canvas` would raise; the details name the task.

    The size is that of the largest message: the first one carries all the others.
    """
    for signature in tasks_of(canvas):
        try:
            _check_task(signature, nodes, shards)
        except DittoError as error:
            details = {**(error.details or {}), "task": signature["task"]}
            raise type(error)(error.code, error.message, details) from None
    check_size(check_publish(None, [], {}, shards), {"chain": canvas})


def _check_task(signature: Mapping[str, Any], nodes: NodeTable, shards: int) -> None:
    row = nodes.get(signature["task"])
    if row is None:
        raise PipelineError("UNKNOWN_NODE", "no node has this name")
    publish = check_publish(row, signature["args"], signature["kwargs"], shards)
    check_order(publish, signature["options"])
    parse_options(row, signature["kwargs"].get(OPTIONS_KEY, {}))


def tasks_of(canvas: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The signatures of all node tasks in a chain, group or chord, in order."""
    match canvas.get("task"):
        case "celery.chain" | "celery.group":
            for member in canvas["kwargs"]["tasks"]:
                yield from tasks_of(member)
        case "celery.chord":
            yield from _tasks_of_header(canvas["kwargs"]["header"])
            yield from tasks_of(canvas["kwargs"]["body"])
        case _:
            yield canvas


def _tasks_of_header(header: Any) -> Iterator[Mapping[str, Any]]:  # a group, or a plain list of signatures
    for member in header["kwargs"]["tasks"] if isinstance(header, Mapping) else header:
        yield from tasks_of(member)
