"""`ditto erase`: remove all that is kept of a session or tenant, and prove it."""

from contextlib import closing

import click

from ditto_tasks.memory.erasure import Subject
from ditto_tasks.memory.opening import memory_is_configured, open_store
from ditto_tasks.memory.stores.sql import SqlMemoryStore
from ditto_tasks.settings import Settings, load_settings
from ditto_tasks.state.erasure import ContextErasure
from ditto_tasks.state.redis import open_state_client

Counts = dict[str, int]


@click.command()
@click.option("--session", help="The session's id, as scopes name it.")
@click.option("--tenant", help="The tenant's name: all of its sessions and its memories.")
def erase(session: str | None, tenant: str | None) -> None:
    """Erase a session or tenant and print what is left, counted again afterwards.

    Late tasks are refused for a week. Effect ledger, caches and run records are kept under hashes that name
    no session; they expire by themselves within a day.
    """
    if (session is None) == (tenant is None) or not (session or tenant):
        raise click.UsageError("give either --session or --tenant")
    settings = load_settings()
    before, after = erase_contexts(settings, session, tenant)
    if memory_is_configured(settings):
        subject = Subject("session", session) if session else Subject("tenant", tenant or "")
        memory_before, memory_after = erase_memories(settings, subject)
        before, after = before | memory_before, after | memory_after
    for kind, count in before.items():
        click.echo(f"{kind:20} {count:8} -> {after[kind]}")
    if any(after.values()):
        raise click.ClickException("not all of it is gone; run the command again")


def erase_contexts(settings: Settings, session: str | None, tenant: str | None) -> tuple[Counts, Counts]:
    """The counts of contexts before and after their erasure; none where no state server is configured."""
    url = settings.connections.context_redis_url
    if url is None:
        return {}, {}
    with closing(open_state_client(url.get_secret_value())) as client:
        contexts = ContextErasure(client, key_prefix=settings.context.cache.key_prefix)
        scopes = contexts.scopes_of(session=session, tenant=tenant)
        before = contexts.remaining(scopes)
        contexts.erase(scopes)
        return before, contexts.remaining(scopes)


def erase_memories(settings: Settings, subject: Subject) -> tuple[Counts, Counts]:
    """The counts of memories before and after their erasure."""
    with closing(open_store(settings)) as store:
        if not isinstance(store, SqlMemoryStore):
            raise click.ClickException("memories on Qdrant can't be erased by this command yet")
        before = store.remaining(subject)
        store.erase(subject)
        return before, store.remaining(subject)
