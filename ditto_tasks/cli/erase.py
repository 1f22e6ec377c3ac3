"""`ditto erase`: remove all that is kept of a session or tenant, and prove it."""

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, cast

import click

from ditto_tasks.celery import LOCAL_RESULTS
from ditto_tasks.cli.deployment import open_deployment
from ditto_tasks.cli.record_erasure import RecordErasure
from ditto_tasks.errors import SettingsError
from ditto_tasks.memory.erasure import Subject
from ditto_tasks.memory.opening import memory_is_configured, open_store
from ditto_tasks.settings import Settings, load_settings
from ditto_tasks.state.erasure import ContextErasure, ContextSubject
from ditto_tasks.state.redis import open_state_client
from ditto_tasks.tenants import is_tenant

if TYPE_CHECKING:
    from redis import Redis

Counts = dict[str, int]


@click.command()
@click.option("--session", help="The session's id, as scopes name it.")
@click.option("--tenant", help="The tenant's name: all of its sessions and its memories.")
@click.option("--yes", is_flag=True, help="Do not ask. Only a terminal is asked.")
def erase(*, session: str | None, tenant: str | None, yes: bool) -> None:
    """Erase a session or tenant; print what is left, counted again.

    Calls and writes that come later are refused with ERASED for a week.
    """
    if (session is None) == (tenant is None) or not (session or tenant):
        raise click.UsageError("give either --session or --tenant")
    if tenant is not None and not is_tenant(tenant):
        raise click.UsageError("a tenant's name is letters, digits, '.', '_' and '-'")
    settings, subject = load_settings(), ContextSubject(session, tenant)
    _tell_what_is_not_there(settings)
    if not yes and sys.stdin.isatty():
        click.confirm("Erase it? Nothing brings it back", abort=True)
    before, after = Counts(), Counts()
    for old, new in (
        erase_records(settings, subject),  # first: they tell which tasks are to stop
        erase_contexts(settings, subject),
        erase_memories(settings, Subject("session", session) if session else Subject("tenant", tenant or "")),
    ):
        before |= old
        after |= new
    for kind, count in before.items():
        click.echo(f"{kind:20} {count:8} -> {after[kind]}")
    if any(after.values()):
        raise click.ClickException("not all of it is gone; run the command again")


def _tell_what_is_not_there(settings: Settings) -> None:
    """Name the stores that no variable names, since nothing is erased there; SettingsError if that is all."""
    stores = {
        "DITTO_BROKER_URL": settings.connections.broker_url is not None,
        "DITTO_WORKER_CONTEXT_REDIS_URL": settings.connections.context_redis_url is not None,
        "DITTO_WORKER_MEMORY_URL": memory_is_configured(settings),
    }
    if not any(stores.values()):
        raise SettingsError("INVALID_SETTINGS", f"{', '.join(stores)}: none is set, so nothing can be erased")
    for variable, there in stores.items():
        if not there:
            click.echo(f"{variable} is not set: nothing is erased there", err=True)


def erase_records(settings: Settings, subject: ContextSubject) -> tuple[Counts, Counts]:
    """The counts of what the broker's and the results' databases have; none where no broker is configured."""
    if settings.connections.broker_url is None:
        return {}, {}
    with open_deployment() as deployment, _results(settings) as results:
        records = RecordErasure(deployment, results, subject)
        records.mark()
        found = records.find()
        before = records.remaining(found)
        records.erase(found)
        return before, records.remaining(found)


def erase_contexts(settings: Settings, subject: ContextSubject) -> tuple[Counts, Counts]:
    """The counts of contexts before and after their erasure; none where no state server is configured."""
    url = settings.connections.context_redis_url
    if url is None:
        return {}, {}
    with closing(open_state_client(url.get_secret_value())) as client:
        contexts = ContextErasure(client, subject, key_prefix=settings.context.cache.key_prefix)
        contexts.mark()
        scopes = contexts.scopes()
        before = contexts.remaining(scopes)
        contexts.erase(scopes)
        return before, contexts.remaining([*scopes, *contexts.scopes()])  # and what came meanwhile


def erase_memories(settings: Settings, subject: Subject) -> tuple[Counts, Counts]:
    """The counts of memories before and after their erasure; none where no store is configured."""
    if not memory_is_configured(settings):
        return {}, {}
    with closing(open_store(settings)) as store:
        before = store.remaining(subject)
        store.erase(subject)
        return before, store.remaining(subject)


@contextmanager
def _results(settings: Settings) -> "Iterator[Redis]":
    """A client of the results' database, which is where tasks store them when no variable names it, too."""
    url = settings.connections.result_backend_url
    place = LOCAL_RESULTS if url is None else url.get_secret_value()
    with closing(cast("Redis", open_state_client(place))) as client:
        yield client
