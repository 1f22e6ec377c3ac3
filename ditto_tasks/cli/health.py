"""`ditto health`: whether a worker on this machine does its work, for container probes."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import click

from ditto_tasks.cli.deployment import OpenDeployment, open_deployment
from ditto_tasks.worker.inspection import WorkerReport, read_workers
from ditto_tasks.worker.leases import LOOP_STALL_S


@click.command()
@click.option(
    "--worker", "hostname", help="Celery's name of the worker; otherwise every worker on this machine."
)
def health(*, hostname: str | None) -> None:
    """Exit code 0 if this machine's worker does its work, else 1.

    It does if it holds shards, its loop ticks and the state store is reachable.
    """
    with open_deployment() as deployment:
        troubles = list(_troubles(deployment, hostname))
    for trouble in troubles:
        click.echo(trouble, err=True)
    if troubles:
        raise SystemExit(1)
    click.echo("healthy")


def _troubles(deployment: OpenDeployment, hostname: str | None) -> Iterator[str]:
    workers = [
        worker for worker in read_workers(deployment.broker, deployment.keys) if _is_meant(worker, hostname)
    ]
    if not workers:
        yield "no worker has reported within two leases"
    for worker in workers:
        yield from trouble_of(worker)
    if any(worker.takes_shards for worker in workers):
        yield from _state_trouble(deployment)


def trouble_of(worker: WorkerReport) -> Iterator[str]:
    """What is wrong with a worker by its own report."""
    if worker.loop_age_ms > LOOP_STALL_S * 1000:
        yield f"{worker.hostname}: the consumer loop has not ticked for {worker.loop_age_ms / 1000:.1f} s"
    if worker.takes_shards and not worker.shards:
        yield f"{worker.hostname}: takes shards but holds none"


def _is_meant(worker: WorkerReport, hostname: str | None) -> bool:
    return worker.hostname == hostname if hostname else worker.host == socket.gethostname()


def _state_trouble(deployment: OpenDeployment) -> Iterator[str]:
    try:
        deployment.app.dependencies.context().ping()
    except Exception as exc:  # noqa: BLE001 -- whatever a client raises, the store can't be used
        yield f"the state store is unreachable: {type(exc).__name__}"
