"""Log lines as JSON: fields of their own, and nothing that a record may carry beside its message."""

import json
import logging
import sys

from ditto_tasks.metrics.logs import JsonFormatter

CANARY = "canary-91d4"


def line_of(**more: object) -> str:
    record = logging.makeLogRecord(
        {"name": "n", "levelname": "ERROR", "msg": "said %s", "args": ("so",), **more}
    )
    return JsonFormatter().format(record)


def test_an_exception_is_named_without_its_text() -> None:
    """Neither its own text, nor that of what caused it, nor the lines of a traceback."""
    try:
        try:
            raise KeyError(CANARY)
        except KeyError as cause:
            raise RuntimeError(CANARY) from cause
    except RuntimeError:
        line = line_of(exc_info=sys.exc_info(), exc_text=CANARY, stack_info=CANARY)
    assert CANARY not in line
    assert json.loads(line)["exception"] == "RuntimeError"


def test_of_a_task_that_has_not_begun_its_id_is_told() -> None:
    """Celery's lines carry the arguments, too."""
    line = line_of(data={"id": "t1", "args": CANARY, "kwargs": CANARY}, extra=CANARY)
    told = json.loads(line)
    assert CANARY not in line
    assert told.keys() == {"time", "level", "logger", "message", "taskId"}
    assert (told["message"], told["taskId"]) == ("said so", "t1")
