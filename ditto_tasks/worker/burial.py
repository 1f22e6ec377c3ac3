"""What is said of a message that is given up: also whether its change was committed before a worker died."""

from __future__ import annotations

from typing import Any

from celery.utils.log import get_logger
from kombu.transport.virtual.base import Message

from ditto_tasks.context.tasks import recorded_outcome
from ditto_tasks.errors import DeadLettered
from ditto_tasks.nodes import CONTEXT
from ditto_tasks.task import NO_EPOCH, NO_OPTIONS, OPTIONS_KEY, TaskCall, parse_options
from ditto_tasks.worker.consumer import read_body
from ditto_tasks.worker.dead_letters import CODE

logger = get_logger(__name__)


def farewell(app: Any, message: Message, deaths: int) -> DeadLettered:  # Celery's edge
    """The error for the message's caller. A worker may have died between the commit and its answer."""
    reason, details = f"{deaths} workers died while they ran this message", {"deaths": deaths}
    version = committed_version(app, message)
    if version is None:
        return DeadLettered(CODE, reason, details)
    return DeadLettered(CODE, f"{reason}, after its change was committed", {**details, "version": version})


def committed_version(app: Any, message: Any) -> str | None:  # Celery's edge
    """The version that the message's mutation wrote, by its operation log; None if it wrote none.

    Not known either is the version of a step whose input comes from its predecessor.
    """
    row, body = app.nodes.get(message.headers.get("task")), read_body(message)
    if row is None or row.domain != CONTEXT or body is None:
        return None
    wire = dict(body[1])
    try:
        options = parse_options(row, wire.pop(OPTIONS_KEY)) if OPTIONS_KEY in wire else NO_OPTIONS
        call = TaskCall(
            node=row.name,
            wire=wire,
            options=options,
            task_id=message.headers["id"],
            root_id=message.headers["id"],
            epoch=NO_EPOCH,
            redelivered=True,
            dependencies=app.dependencies,
        )
        outcome = recorded_outcome(call)
    except Exception as exc:  # noqa: BLE001 -- whatever keeps the answer from us, the shard has to go on
        logger.warning("The operation log was not asked about a dead letter: %s", type(exc).__name__)
        return None
    return None if outcome is None else outcome.version
