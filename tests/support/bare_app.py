"""The same without this package: a Celery application as its documentation shows it, with JSON."""

import os

from celery import Celery

NAME = "support.bare_app"

app = Celery(
    "bare",
    broker=os.environ.get("DITTO_BROKER_URL"),
    backend=os.environ.get("DITTO_RESULT_BACKEND_URL"),
)
app.conf.update(
    task_acks_late=True,
    task_default_queue="bare",
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
    result_expires=3600,
)


@app.task(name="bare.nothing")
def nothing(*_given: object) -> None:
    """Nothing."""


@app.task(name="bare.make")
def make(size: int) -> str:
    """A text of so many characters."""
    return "x" * size


@app.task(name="bare.measure")
def measure(texts: list[str]) -> int:
    """How long all texts are."""
    return sum(map(len, texts))
