"""Options by which commands choose sessions: a literal prefix, or a tenant."""

from __future__ import annotations

import click

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
