"""What a type checker must conclude of public calls; test_public_calls.py has mypy check this file."""

from collections.abc import AsyncIterator, Iterator
from typing import assert_type

from ditto_tasks import AsyncDitto, Ditto, NodeResult, Scope
from ditto_tasks.client import AsyncPending, Event, Pending, Receipt
from ditto_tasks.context import Context, ContextSelection
from ditto_tasks.json_values import JsonValue
from ditto_tasks.pipelines import Answer, ReactResult, Search, Summarized

SCOPE = Scope(session_id="s")


def sync_calls(client: Ditto) -> None:
    updated = client.context.update(scope=SCOPE, add=[])
    assert_type(updated, Pending[Receipt | Context | None])
    assert_type(updated.id, str)
    assert_type(updated.get(timeout=1.0), Receipt | Context | None)
    assert_type(updated.events(), Iterator[Event])
    assert_type(updated.cancel(), None)
    assert_type(client.context.select(scope=SCOPE).get(), Receipt | ContextSelection | None)
    assert_type(client.memory.search(query="q").get(), NodeResult)
    assert_type(client.retrieval.search(query={}).get(), NodeResult)
    assert_type(client.infer.sample(messages=[]).get(), NodeResult)
    assert_type(client.interaction.tool(call={}).get(), JsonValue)
    assert_type(client.invoke("MY.NODE", {}).get(), JsonValue)
    assert_type(client.answer(SCOPE, "why?", searches=[Search()], remember=True), Pending[Answer])
    assert_type(client.answer(SCOPE, "why?").get().selected_item_ids, tuple[str, ...])
    assert_type(client.result("id"), Pending[JsonValue])
    assert_type(client.react(messages=[], timeout_ms=1), Pending[ReactResult])
    assert_type(client.summarize(scope=SCOPE, max_tokens=9, model={}).get(), Summarized)
    assert_type(client.rag(scope=SCOPE, query="q").get().output, ContextSelection)


async def async_calls(client: AsyncDitto) -> None:
    assert_type(await client.context.load(scope=SCOPE), Receipt | Context | None)
    assert_type(await client.memory.write(memories=[]), NodeResult)
    pending = client.answer(SCOPE, "why?", init=[{"id": "a", "content": 1}])
    assert_type(pending, AsyncPending[Answer])
    assert_type(await pending, Answer)
    assert_type(await pending.get(timeout=1.0), Answer)
    assert_type(pending.events(), AsyncIterator[Event])
    assert_type(await pending.sent(), None)
    assert_type(await pending.cancel(), None)
    assert_type(await client.invoke("MY.NODE", {}), JsonValue)
    assert_type(client.react(scope=SCOPE, messages=[]), AsyncPending[ReactResult])
    assert_type((await client.tool(context={}, call={})).context, Context)


def refused(client: Ditto) -> None:
    client.answer(SCOPE, "why?", serches=[])  # type: ignore[call-arg]  # a misspelt option
    client.answer(SCOPE, "why?", on_search_failure="retry")  # type: ignore[arg-type]  # no such policy
    client.context.forget(scope=SCOPE)  # type: ignore[attr-defined]  # no such node
    client.context.update({"add": []})  # type: ignore[call-arg]  # input is given by keywords
