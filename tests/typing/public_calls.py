"""What a type checker must conclude of public calls; test_public_calls.py has mypy check this file."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import assert_type

from ditto_tasks import AsyncDitto, Ditto, NodeResult, Scope
from ditto_tasks.client import AsyncPending, Event, Pending, Receipt
from ditto_tasks.client.sync import PendingLoop, PendingRun
from ditto_tasks.context import Context, ContextSelection
from ditto_tasks.interaction.values import Observation
from ditto_tasks.json_values import JsonValue
from ditto_tasks.pipelines import Answer, Graph, Loop, ReactResult, Search, Summarized, run_graph

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


def graphs_and_loops(client: Ditto, graph: Graph, loop: Loop) -> None:
    """A graph's run gives outputs by node, a loop's its state."""
    run = client.run(graph, {"a": 1}, scope=SCOPE, run_id="r", timeout_ms=1)
    assert_type(run, PendingRun)
    assert_type(run.get(1.0), dict[str, JsonValue])
    assert_type(run.outputs(["a"]), dict[str, JsonValue])
    assert_type(client.run(loop, {}), PendingLoop)
    assert_type(client.run(loop).get(), JsonValue)
    assert_type(client.resume("r").get(), dict[str, JsonValue])
    assert_type(client.resume_loop("r").state(), JsonValue)
    assert_type(run_graph(graph, None, lambda node, wire: {node: wire}), dict[str, JsonValue])


async def graphs_and_loops_awaited(client: AsyncDitto, graph: Graph, loop: Loop) -> None:
    """The same, awaited."""
    assert_type(await client.run(graph), dict[str, JsonValue])
    assert_type(await client.run(loop), JsonValue)
    assert_type(await client.run(graph).outputs(), dict[str, JsonValue])


def every_node(client: Ditto) -> None:
    """Each method of the table, by what its pending result gives."""
    for context in (client.context.load(scope=SCOPE), client.context.compress(scope=SCOPE, max_items=1)):
        assert_type(context, Pending[Receipt | Context | None])
    memory, infer, act = client.memory, client.infer, client.interaction
    for result in (
        *(memory.get(ids=[]), memory.query(limit=1), memory.write(memories=[])),
        *(memory.update(id="m", patch={}), memory.delete(ids=[])),
        *(infer.trajectory(messages=[]), infer.reflect(subject={}), infer.deliberate(problem={})),
        *(infer.cache_lookup(key={}), infer.cache_write(key={}), infer.cache_invalidate(tags=[])),
    ):
        assert_type(result, Pending[NodeResult])
    for acted in (act.mcp(operation="discover"), act.observe(result={}), act.output(message={})):
        assert_type(acted, Pending[JsonValue])


def every_flow(client: Ditto) -> None:
    """What the flows give, as it is read."""
    assert_type(client.skill(sources=[]).get().output, Context)
    assert_type(client.tool(scope=SCOPE, call={}).get().observation, Observation)
    assert_type(client.mcp(scope=SCOPE, request={}).get().observation, Observation | None)


async def every_node_awaited(client: AsyncDitto) -> None:
    """The same table, awaited."""
    assert_type(await client.context.compress(scope=SCOPE), Receipt | Context | None)
    assert_type(await client.context.select(scope=SCOPE), Receipt | ContextSelection | None)
    assert_type(await client.retrieval.search(query={}), NodeResult)
    assert_type(await client.infer.deliberate(problem={}), NodeResult)
    assert_type(await client.interaction.observe(result={}), JsonValue)
    assert_type(await client.result("id"), JsonValue)
    assert_type(await client.summarize(scope=SCOPE, max_tokens=9, model={}), Summarized)
    assert_type(client.stream(["id"], "0", bool), AsyncGenerator[Event, None])


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
