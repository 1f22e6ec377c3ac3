"""Our tasks, consumed as plain Celery consumes: kombu's channels, Celery's consumer, results and STARTED."""

from typing import Any

from kombu import Connection

from ditto_tasks.celery import DittoAMQP, DittoCelery, create_app
from ditto_tasks.node_task import NodeTask

NAME = "support.stock_app"


class StockAMQP(DittoAMQP):
    """Our queues and content type on connections of kombu's own."""

    Connection: Any = Connection


def stock_app() -> DittoCelery:
    """The application of these tasks without anything of ours between queue and task."""
    made = create_app()
    made.amqp_cls = StockAMQP  # type: ignore[assignment]  # as in the class
    made.loader.override_backends = {}
    made.steps["consumer"].discard("ditto_tasks.worker.bootsteps:ShardStep")
    made.conf.worker_consumer = "celery.worker.consumer:Consumer"
    for task in made.tasks.values():
        if isinstance(task, NodeTask):
            task.track_started = True
    return made


app = stock_app()
