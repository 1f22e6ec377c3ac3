"""`ditto memory`: the schema of the memory database."""

import click

from ditto_tasks.memory.opening import open_store
from ditto_tasks.memory.stores.sql import SqlMemoryStore
from ditto_tasks.settings import load_settings


@click.group()
def memory() -> None:
    """Look after the memory database."""


@memory.command()
def init() -> None:
    """Create the memory database's tables, or renew them.

    After it they are of this version. It is safe to repeat.
    """
    store = open_store(load_settings())
    if not isinstance(store, SqlMemoryStore):
        store.close()
        click.echo("memory collection: ready")
        return
    try:
        before, now = store.migrate()
    finally:
        store.close()
    click.echo(
        f"memory schema: version {now}" if before == now else f"memory schema: version {before} -> {now}"
    )
