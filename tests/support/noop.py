"""A plain Celery task that does nothing: what a node's task is measured against."""

from celery import shared_task


@shared_task(name="noop", typing=False)
def noop(**_wire: object) -> None:
    """Nothing."""
