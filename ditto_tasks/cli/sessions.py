"""`ditto sessions`: which sessions have a context, what is in it, and how to be rid of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Final

import click
from rich.bar import Bar
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from ditto_tasks.canonical import canonical_json, scope_key
from ditto_tasks.cli.choosing import open_sessions, prefix_of
from ditto_tasks.cli.durations import shown
from ditto_tasks.context.models import ContextItem
from ditto_tasks.context.text import estimated_tokens
from ditto_tasks.errors import DittoError
from ditto_tasks.models import Scope, to_wire
from ditto_tasks.settings import Settings
from ditto_tasks.state.base import StoredContext
from ditto_tasks.state.index import IndexedScope, ScopeIndex
from ditto_tasks.state.redis import translated_errors

BAR_WIDTH: Final = 30
CONTENT_CHARACTERS: Final = 2_000  # of one item, with --content

chosen = click.option("--match", metavar="PREFIX", help="Session ids that start with this, literally.")
of_tenant = click.option("--tenant", help="The sessions of one tenant.")


@click.group()
def sessions() -> None:
    """List, show and delete sessions, or rebuild their index."""


@sessions.command("list")
@chosen
@of_tenant
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One scope as JSON a line, as `ditto compress` reads.")
def list_sessions(*, match: str | None, tenant: str | None, limit: int, as_json: bool) -> None:
    """Name sessions that have a context, in no order."""
    with _open_index() as (index, settings):
        now_ms = index.now_ms()
        found = list(islice(index.scopes(prefix_of(match, tenant)), limit + 1))
    if as_json:
        for entry in found[:limit]:
            click.echo(canonical_json(to_wire(entry.scope)))
    else:
        Console().print(_table(found[:limit], now_ms, settings.context.cache.ttl_ms))
    if len(found) > limit:
        click.echo(f"only the first {limit}; --limit shows more", err=True)


@sessions.command()
@click.argument("session")
@click.option("--turn", help="The scope's turn id.")
@click.option("--invocation", help="The scope's invocation id.")
@click.option("--content", is_flag=True, help="Show what the items say, too.")
def show(*, session: str, turn: str | None, invocation: str | None, content: bool) -> None:
    """Draw SESSION's context: items, tokens, age, time to live."""
    scope = _scope(session, turn, invocation)
    with _open_index() as (index, settings):
        stored, left_ms = index.read(scope)
    if stored is None:
        raise DittoError("CONTEXT_NOT_FOUND", "the session has no context")
    _draw(scope, stored, left_ms, settings, content=content)


@sessions.command()
@click.argument("session", required=False)
@chosen
@of_tenant
@click.option("--turn", help="The scope's turn id.")
@click.option("--invocation", help="The scope's invocation id.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(
    *,
    session: str | None,
    match: str | None,
    tenant: str | None,
    turn: str | None,
    invocation: str | None,
    yes: bool,
) -> None:
    """Delete the context of SESSION, or those of --match or --tenant. Memories stay."""
    if sum(choice is not None for choice in (session, match, tenant)) != 1:
        raise click.UsageError("name one session, or choose by --match or --tenant")
    with _open_index() as (index, _):
        if session is not None:
            scopes = [_scope(session, turn, invocation)]
        else:
            scopes = [entry.scope for entry in index.scopes(prefix_of(match, tenant))]
        if not yes:
            click.confirm(f"Delete {_contexts(len(scopes))}?", abort=True)
        deleted = sum(index.forget(scope) for scope in scopes)
    click.echo(f"{_contexts(deleted)} deleted")
    if session is not None and not deleted:
        raise DittoError("CONTEXT_NOT_FOUND", "the session has no context")


@sessions.command()
def reindex() -> None:
    """Rebuild the index from the records.

    It is needed after a restore or a lost write.
    """
    with _open_index() as (index, settings):
        found = index.reindex(default_ttl_ms=settings.context.cache.ttl_ms)
    click.echo(f"{found.named} sessions named")
    for key in found.unnamed:
        click.echo(f"unnamed: {key}")


@contextmanager
def _open_index() -> Iterator[tuple[ScopeIndex, Settings]]:
    with open_sessions() as (_, batch), translated_errors():
        yield batch.index(), batch.settings


def _contexts(count: int) -> str:
    return "1 context" if count == 1 else f"{count} contexts"


def _scope(session: str, turn: str | None, invocation: str | None) -> Scope:
    ids = {"sessionId": session, "turnId": turn, "invocationId": invocation}
    return Scope.parse({name: value for name, value in ids.items() if value is not None})


def _table(found: list[IndexedScope], now_ms: int, ttl_ms: int) -> Table:
    names = (Column(name, overflow="fold") for name in ("session", "turn", "invocation"))  # they are copied
    table = Table(*names, "scope", "age", "lives for")
    for entry in found:
        scope, left_ms = entry.scope, max(0, entry.expires_ms - now_ms)
        table.add_row(
            scope.session_id or "-",
            scope.turn_id or "-",
            scope.invocation_id or "-",
            scope_key(scope).removeprefix("scope:")[:12],
            shown(max(0, ttl_ms - left_ms)),
            shown(left_ms),
        )
    return table


def _draw(scope: Scope, stored: StoredContext, left_ms: int, settings: Settings, *, content: bool) -> None:
    items, policy = stored.context.items, settings.context.policy
    costs = [estimated_tokens(item.inline_bytes) for item in items]
    age = "unknown" if left_ms < 0 else shown(max(0, settings.context.cache.ttl_ms - left_ms))
    about = Table.grid(padding=(0, 2))
    about.add_row("scope", Text(scope_key(scope), overflow="fold"))
    about.add_row("items", f"{len(items)} of {policy.max_items}", _bar(len(items), policy.max_items))
    about.add_row("tokens", *_budget(sum(costs), policy.max_tokens))
    about.add_row("age", age)
    about.add_row("lives for", "ever" if left_ms < 0 else shown(left_ms))
    Console().print(about, _items(items, costs, content=content))


def _bar(part: int, whole: int) -> Bar:
    return Bar(max(whole, 1), 0, part, width=BAR_WIDTH)


def _budget(tokens: int, ceiling: int | None) -> tuple[str, Bar | str]:
    if ceiling is None:
        return f"{tokens}, no ceiling", ""
    return f"{tokens} of {ceiling}", _bar(tokens, ceiling)


def _items(items: tuple[ContextItem, ...], costs: list[int], *, content: bool) -> Table:
    table = Table(Column("item", overflow="fold"), "tokens", "share", *(["content"] if content else []))
    for item, cost in zip(items, costs, strict=True):
        table.add_row(item.id, str(cost), _bar(cost, max(costs)), *([_text(item)] if content else []))
    return table


def _text(item: ContextItem) -> str:
    value = to_wire(item.content)
    plain = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return plain if len(plain) <= CONTENT_CHARACTERS else plain[:CONTENT_CHARACTERS] + " …"
