"""Receipts: why each item was kept, dropped or skipped, confirmed by a run without any service."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from click.testing import CliRunner
from support.contexts import context, item, refused
from support.conversations import session

from ditto_tasks.cli import celery_group
from ditto_tasks.context import (
    AsyncContextNodes,
    Context,
    ContextNodes,
    ContextServices,
    Scope,
    parse_context,
    rag_strategy,
)
from ditto_tasks.context.base import ContextExecution
from ditto_tasks.context.conversations import ConversationCompressor, ConversationSelector, read_openai
from ditto_tasks.context.receipts import SelectionReceipt
from ditto_tasks.context.replay import confirm
from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.json_values import JsonObject, decode, encode
from ditto_tasks.models import to_wire
from ditto_tasks.state.redis import RedisContextStore, open_state_client

SELECT, COMPRESS = "CONTEXT.SELECT", "CONTEXT.COMPRESS"
CONVERSATION = {"kind": "provider", "name": "conversation"}


class Words:
    """An estimator of an application."""

    def estimate(self, content: object, execution: ContextExecution) -> int:
        return len(str(content).split())


class Shortening:
    """A compressor of an application, which rewrites what it keeps."""

    def compress(self, request: Any, execution: ContextExecution) -> JsonObject:
        return {"items": [{**each.wire_form(), "content": "short"} for each in request.context.items[:2]]}


class Invented:
    """A selector of an application, which has items of its own."""

    def select(self, request: Any, execution: ContextExecution) -> list[Any]:
        return [
            item("new", "n" * 90),
            request.context.items[1],
            item("big", "b" * 900),
            request.context.items[1],
        ]


def conversation() -> Context:
    return ContextNodes().load(sources=read_openai(session(3)))


PLAIN = ContextServices()
OURS = ContextServices(selector=ConversationSelector(), compressor=ConversationCompressor())
WORDS = ContextServices(selector=ConversationSelector(), token_estimator=Words())
FOREIGN = ContextServices(
    selector=Invented(),
    compressor=Shortening(),
    rag_strategy=rag_strategy(
        retrieve=lambda request, _: [{"item": each} for each in reversed(request.items)]
    ),
)
RUNS: list[tuple[ContextServices, str, dict[str, Any]]] = [
    (PLAIN, SELECT, {"purpose": "infer"}),
    (PLAIN, SELECT, {"purpose": "infer", "query": "flight refund", "maxTokens": 500}),
    (PLAIN, SELECT, {"purpose": "memory", "limit": 4}),
    (PLAIN, COMPRESS, {"maxTokens": 500}),
    (PLAIN, COMPRESS, {"maxItems": 7}),
    (OURS, SELECT, {"purpose": "infer", "strategy": CONVERSATION, "maxTokens": 700, "query": "gate"}),
    (OURS, COMPRESS, {"maxTokens": 700}),
    (WORDS, SELECT, {"purpose": "infer", "strategy": CONVERSATION, "maxTokens": 300}),
    (WORDS, SELECT, {"purpose": "infer", "maxTokens": 90}),
    (WORDS, COMPRESS, {"maxTokens": 300}),
    (
        FOREIGN,
        SELECT,
        {"purpose": "infer", "strategy": {"kind": "provider", "name": "mine"}, "maxTokens": 200},
    ),
    (FOREIGN, SELECT, {"purpose": "infer", "strategy": {"kind": "rag"}, "maxTokens": 300}),
    (FOREIGN, COMPRESS, {"maxTokens": 500}),
]


@pytest.mark.parametrize(("services", "node", "request_"), RUNS)
def test_a_receipt_is_confirmed_without_services(
    services: ContextServices, node: str, request_: dict[str, Any]
) -> None:
    """The context, the request and a receipt that went over the wire give the same result again."""
    given = conversation()
    explained = ContextNodes(services=services).explain(node, {**request_, "context": given})
    wire = decode(encode(to_wire(explained.receipt)))
    assert isinstance(wire, dict)
    assert confirm(wire, given, request_) == explained.result


@pytest.mark.parametrize(("services", "node", "request_"), RUNS)
def test_every_item_has_its_reason_and_the_sums_agree(
    services: ContextServices, node: str, request_: dict[str, Any]
) -> None:
    """All items of the context are told of once, kept ones are those of the result, and the tokens add up."""
    given = conversation()
    explained = ContextNodes(services=services).explain(node, {**request_, "context": given})
    receipt = explained.receipt
    result = explained.result if isinstance(explained.result, Context) else explained.result.context
    told = [entry.id for entry in receipt.entries]
    assert len(set(told)) == len(told)
    assert {each.id for each in given.items} <= set(told)
    assert {entry.id for entry in receipt.entries if entry.verdict == "kept"} == {
        each.id for each in result.items
    }
    assert receipt.items == len(result.items) <= receipt.limit
    if receipt.budget is not None:
        kept = [entry.tokens for entry in receipt.entries if entry.verdict == "kept"]
        assert sum(each or 0 for each in kept) == receipt.tokens
        assert (receipt.tokens or 0) <= receipt.budget


@pytest.mark.parametrize(
    "change",
    [
        lambda wire: wire["entries"][0].update(verdict="dropped"),
        lambda wire: wire["entries"][0].update(score=5.0),
        lambda wire: wire["entries"][-1].update(reason="because"),
        lambda wire: wire["entries"].pop(),
        lambda wire: wire.update(budget=600),
        lambda wire: wire.update(tokens=1),
        lambda wire: wire.update(context="context:0"),
    ],
)
def test_a_receipt_that_was_changed_is_refused(change: Any) -> None:
    """A receipt that tells anything else than what the run does is RECEIPT_MISMATCH."""
    given, asked = conversation(), {"purpose": "infer", "maxTokens": 500}
    receipt = ContextNodes().explain(SELECT, {**asked, "context": given}).receipt
    wire: Any = decode(encode(to_wire(receipt)))
    change(wire)
    assert refused(confirm, wire, given, asked) == "RECEIPT_MISMATCH"


@pytest.mark.parametrize("change", [lambda wire: wire.pop("node"), lambda wire: wire.update(entries="x")])
def test_what_is_no_receipt_is_invalid_input(change: Any) -> None:
    """A receipt of another shape is refused as every other input, and not with pydantic's error."""
    given, asked = conversation(), {"purpose": "infer", "maxTokens": 500}
    wire: Any = decode(encode(to_wire(ContextNodes().explain(SELECT, {**asked, "context": given}).receipt)))
    change(wire)
    assert refused(confirm, wire, given, asked) == "INVALID_INPUT"


def test_another_context_or_request_is_refused() -> None:
    """A receipt stands for one context and one request only."""
    given, asked = conversation(), {"purpose": "infer", "maxTokens": 500}
    receipt = ContextNodes().explain(SELECT, {**asked, "context": given}).receipt
    shorter = parse_context({"items": [each.wire_form() for each in given.items[1:]]})
    assert refused(confirm, receipt, shorter, asked) == "RECEIPT_MISMATCH"
    assert refused(confirm, receipt, given, {**asked, "query": "gate"}) == "RECEIPT_MISMATCH"


def test_reasons_tell_apart_limit_budget_and_eligibility() -> None:
    """Over the limit, over the budget and not eligible are different reasons."""
    given = context(item("a", "x" * 400), item("b"), item("c", private=True), item("d"))

    def reasons(**request: Any) -> dict[str, str]:
        entries = ContextNodes().explain(SELECT, {"context": given, **request}).receipt.entries
        return {entry.id: f"{entry.verdict}: {entry.reason}" for entry in entries}

    assert reasons(purpose="memory", limit=1)["c"] == "skipped: not eligible for memory"
    assert reasons(purpose="infer", limit=1)["a"] == "dropped: the limit was reached"
    assert reasons(purpose="infer", maxTokens=50)["a"] == "dropped: over the token budget"


def test_scores_that_are_no_number_are_left_out() -> None:
    """An infinite score keeps no receipt from being JSON."""
    given = context(item("a", priority=1e308), item("b"))
    receipt = ContextNodes().explain(SELECT, {"context": given, "purpose": "infer"}).receipt
    assert decode(encode(to_wire(receipt)))
    assert [entry.score is None for entry in receipt.entries] == [True, False]


def test_only_select_and_compress_have_receipts() -> None:
    """Explaining another node is refused."""
    assert refused(ContextNodes().explain, "CONTEXT.LOAD", {"sources": []}) == "UNKNOWN_NODE"


def test_async_nodes_explain_alike() -> None:
    """The async form gives the same receipt, with an async estimator too."""

    class Slow:
        async def estimate(self, content: object, execution: ContextExecution) -> int:
            return len(str(content).split())

    request = {"context": conversation(), "purpose": "infer", "strategy": CONVERSATION, "maxTokens": 300}
    services = ContextServices(selector=ConversationSelector(), token_estimator=Slow())
    explained = asyncio.run(AsyncContextNodes(services=services).explain(SELECT, request))
    assert explained == ContextNodes(services=WORDS).explain(SELECT, request)


def test_explain_shows_a_stored_session(server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ditto explain` draws the receipt or prints it as JSON, and leaves the session as it was."""
    scope = Scope(session_id="explained")
    client = open_state_client(server.redis_url(0))
    store = RedisContextStore(client, ttl_ms=60_000)
    nodes = ContextNodes(services=ContextServices(state_store=store))
    nodes.load(sources=read_openai(session(3)), scope=scope)
    before = store.get(scope)
    monkeypatch.setenv("DITTO_WORKER_CONTEXT_REDIS_URL", server.redis_url(0))
    arguments = ["explain", "--session", "explained", "--max-tokens", "700"]
    drawn = CliRunner().invoke(celery_group, arguments, env={"COLUMNS": "160"})
    assert drawn.exit_code == 0, drawn.output
    assert "latest user turn" in drawn.output
    assert "of 700 tokens" in drawn.output
    shown = CliRunner().invoke(celery_group, [*arguments, "--json", "--compress", "--strategy", "default"])
    wire: Any = decode(shown.output.encode())
    assert SelectionReceipt.model_validate(wire).node == COMPRESS
    small = CliRunner().invoke(celery_group, [*arguments[:-1], "5"])
    assert "BUDGET_TOO_SMALL" in small.output
    assert store.get(scope) == before
    client.close()
