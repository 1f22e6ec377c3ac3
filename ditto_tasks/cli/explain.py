"""`ditto explain`: why SELECT or COMPRESS would keep, drop or skip each item of a session. Never writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click
from rich.console import Console
from rich.table import Column, Table

from ditto_tasks.canonical import canonical_json
from ditto_tasks.celery import create_app
from ditto_tasks.context.models import Context, ContextItem
from ditto_tasks.context.nodes.in_process import ContextNodes
from ditto_tasks.context.nodes.table import COMPRESS, SELECT
from ditto_tasks.context.opening import OpenContext
from ditto_tasks.context.receipts import ReceiptEntry, SelectionReceipt
from ditto_tasks.context.replay import confirm
from ditto_tasks.context.text import text_of
from ditto_tasks.errors import ContextError
from ditto_tasks.json_values import JsonObject
from ditto_tasks.models import Scope, to_wire
from ditto_tasks.settings import load_settings
from ditto_tasks.state.redis import translated_errors

PREVIEW_CHARACTERS: Final = 60
KINDS: Final = ("default", "rag")  # any other name is a provider's
COLOURS: Final = {"kept": "green", "dropped": "red", "skipped": "yellow"}


@click.command()
@click.option("--session", required=True, help="The scope's session id.")
@click.option("--turn", help="The scope's turn id.")
@click.option("--invocation", help="The scope's invocation id.")
@click.option("--compress", is_flag=True, help="Explain COMPRESS instead; the state stays as it is.")
@click.option("--strategy", default="conversation", show_default=True, help="default, rag or a name.")
@click.option("--purpose", type=click.Choice(["infer", "memory"]), default="infer", show_default=True)
@click.option("--query", help="What SELECT's scores look for.")
@click.option("--limit", type=click.IntRange(min=0), help="The most items.")
@click.option("--max-tokens", type=click.IntRange(min=0), help="The most tokens.")
@click.option("--content", is_flag=True, help="Show how each item begins, too.")
@click.option("--json", "as_json", is_flag=True, help="The receipt as JSON.")
def explain(
    *,
    session: str,
    turn: str | None,
    invocation: str | None,
    compress: bool,
    strategy: str,
    purpose: str,
    query: str | None,
    limit: int | None,
    max_tokens: int | None,
    content: bool,
    as_json: bool,
) -> None:
    """Say why each item of a session would be kept or dropped.

    SELECT or COMPRESS is run on the stored context with all its arithmetic, and nothing is changed.
    """
    scope = _scope(session, turn, invocation)
    asked: dict[str, object] = {"maxItems" if compress else "limit": limit, "maxTokens": max_tokens}
    if not compress:
        asked |= {"purpose": purpose, "query": query}
    request = {**_given(asked), **_strategy(strategy, compress=compress)}
    with _open() as opened:
        context = _read(opened, scope)
        nodes = ContextNodes(policy=opened.policy, services=opened.services)
        node = COMPRESS if compress else SELECT
        receipt = nodes.explain(node, {**request, "context": context}).receipt
    confirm(receipt, context, request)
    if as_json:
        click.echo(canonical_json(to_wire(receipt)))
    else:
        _draw(receipt, context, content=content)


def _given(fields: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in fields.items() if value is not None}


def _strategy(name: str, *, compress: bool) -> JsonObject:
    if name in KINDS:
        return {} if compress else {"strategy": {"kind": name}}
    return {"strategy": {"kind": "provider", "name": name}}


def _scope(session: str, turn: str | None, invocation: str | None) -> Scope:
    ids = {"sessionId": session, "turnId": turn, "invocationId": invocation}
    return Scope.parse(_given({**ids}))


@contextmanager
def _open() -> Iterator[OpenContext]:
    app = create_app(load_settings())
    try:
        with translated_errors():
            yield app.dependencies.context()
    finally:
        app.dependencies.close()
        app.close()


def _read(opened: OpenContext, scope: Scope) -> Context:
    store = opened.services.state_store
    if store is None:
        raise ContextError("STATE_STORE_UNAVAILABLE", "no state store is configured")
    stored = store.get(scope)
    if stored is None:
        raise ContextError("CONTEXT_NOT_FOUND", "the session has no context")
    return stored.context


def _draw(receipt: SelectionReceipt, context: Context, *, content: bool) -> None:
    items = {item.id: item for item in context.items}
    spent = f", {receipt.tokens} of {receipt.budget} tokens" if receipt.budget is not None else ""
    about = f"{receipt.node} {receipt.strategy}: {receipt.items} of {receipt.limit} items{spent}; confirmed"
    numbers = ("score", "tokens", "used")
    begins = ["begins"] if content else []
    table = Table(Column("item", overflow="fold"), "role", "", "reason", *numbers, *begins)
    for entry in receipt.entries:
        item = items.get(entry.id)
        table.add_row(entry.id, _role(item), *_cells(entry), *([_preview(item)] if content else []))
    console = Console()
    console.print(table)
    console.print(about, highlight=False)


def _cells(entry: ReceiptEntry) -> tuple[str, str, str, str, str]:
    score = "-" if entry.score is None else f"{entry.score:.2f}"
    sizes = ["-" if size is None else str(size) for size in (entry.tokens, entry.used)]
    return f"[{COLOURS[entry.verdict]}]{entry.verdict}[/]", entry.reason, score, sizes[0], sizes[1]


def _role(item: ContextItem | None) -> str:
    role = (item.metadata or {}).get("role") if item else None
    return role if isinstance(role, str) else "-"


def _preview(item: ContextItem | None) -> str:
    text = "" if item is None else " ".join(text_of(item.content).split())
    return text if len(text) <= PREVIEW_CHARACTERS else text[:PREVIEW_CHARACTERS] + " …"
