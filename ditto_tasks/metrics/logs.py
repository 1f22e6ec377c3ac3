"""Log records as one JSON object a line, with the task's id, its scope's hash and its shard."""

from __future__ import annotations

import json
import logging
import time
from typing import Final

from celery import current_task, signals

from ditto_tasks.sharding import SHARD_QUEUES, is_shard_queue
from ditto_tasks.worker.keys import SCOPE_HEADER

UID: Final = "ditto-json-logs"  # a second application of a process changes nothing


class JsonFormatter(logging.Formatter):
    """What is logged is free of content already; this adds fields and no more."""

    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_task_fields(record),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = record.exc_info[0].__name__  # its text may hold anything
        return json.dumps(line, ensure_ascii=False)


def write_json_logs() -> None:
    """Make Celery's loggers of this process write JSON from their setup on."""
    signals.after_setup_logger.connect(_set_formatter, weak=False, dispatch_uid=UID)
    signals.after_setup_task_logger.connect(_set_formatter, weak=False, dispatch_uid=UID)


def _set_formatter(logger: logging.Logger | None = None, **_about: object) -> None:
    for handler in logger.handlers if logger is not None else ():
        handler.setFormatter(JsonFormatter())


def _task_fields(record: logging.LogRecord) -> dict[str, object]:
    request = current_task.request if current_task else None
    if request is None or request.id is None:
        about = getattr(record, "data", None)  # of Celery's own lines about a task that has not begun
        return {"taskId": about["id"]} if isinstance(about, dict) and "id" in about else {}
    queue = str((request.delivery_info or {}).get("routing_key"))
    shard = queue.removeprefix(f"{SHARD_QUEUES}.") if is_shard_queue(queue) else None
    scope = request.get(SCOPE_HEADER)
    fields = {"taskId": request.id, "task": current_task.name, "scope": scope, "shard": shard}
    return {name: value for name, value in fields.items() if value is not None}
