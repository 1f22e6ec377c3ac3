"""How commands come to sessions: by a literal prefix or a tenant, and with a deployment's index open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import click

from ditto_tasks.batch.opening import OpenBatch, open_batch
from ditto_tasks.cli.deployment import OpenDeployment, open_deployment
from ditto_tasks.tenants import tenant_session


def prefix_of(match: str | None, tenant: str | None) -> str:
    """What session ids have to start with; the name of a tenant ends at its colon."""
    if match is not None and tenant is not None:
        raise click.UsageError("--match and --tenant exclude each other")
    if tenant is None:
        return match or ""
    try:
        return tenant_session(tenant, "")
    except ValueError as problem:
        raise click.BadParameter(str(problem), param_hint="--tenant") from problem


@contextmanager
def open_sessions() -> Iterator[tuple[OpenDeployment, OpenBatch]]:
    """The deployment of the settings; an operator needs none of the application's extensions."""
    with open_deployment() as deployment, closing(open_batch(deployment.app.settings, {})) as batch:
        yield deployment, batch
