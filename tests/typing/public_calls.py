"""What a type checker must conclude of public calls; test_public_calls.py has mypy check this file."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import assert_type

from ditto_tasks import AsyncDitto, Ditto, NodeResult, Scope
from ditto_tasks.client import AsyncPending, Event, NodeReply, Pending, Receipt
from ditto_tasks.client.sync import PendingLoop, PendingRun
from ditto_tasks.context import Context, ContextSelection
from ditto_tasks.infer.models import Deliberation, Invalidated, Lookup, Reflection, Trajectory, Written
from ditto_tasks.infer.values import Sample
from ditto_tasks.interaction.models import Discovery, Invocation
from ditto_tasks.interaction.values import ExternalResult, Observation, OutputReceipt, ToolCall
from ditto_tasks.json_values import JsonValue
from ditto_tasks.memory.models import DeleteOutput, MemoryDraft, MemoryItem, MemorySearchResult, QueryPage
from ditto_tasks.pipelines import Answer, Graph, Loop, ReactResult, Search, Summarized, run_graph
from ditto_tasks.retrieval.models import RetrievalOutput

SCOPE = Scope(session_id="s")
EMPTY = Context(items=())


def sync_calls(client: Ditto) -> None:
    updated = client.context.update(scope=SCOPE, add=[])
    assert_type(updated, Pending[Receipt])
    assert_type(updated.id, str)
    assert_type(updated.get(timeout=1.0), Receipt)
    assert_type(updated.events(), Iterator[Event])
    assert_type(updated.cancel(), None)
    assert_type(client.context.select(scope=SCOPE, purpose="infer").get(), ContextSelection)
    found: NodeResult = client.memory.search(query="q").get()
    assert_type(found.output, JsonValue | None)
    assert_type(client.memory.search(query="q").get().value(), tuple[MemorySearchResult, ...])
    assert_type(client.interaction.tool(call={}).get(), ExternalResult)
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


def replies(client: Ditto, ditto: dict[str, object]) -> None:
    """What CONTEXT gives depends on `scope` and `reply`; with options in a mapping it may be anything."""
    context = client.context
    assert_type(context.load(scope=SCOPE), Pending[Context])
    assert_type(context.load(sources=[{"id": "a", "content": 1}]), Pending[Context])
    assert_type(context.load(scope=SCOPE, sources=[], if_absent=True), Pending[Receipt])
    assert_type(context.load(scope=SCOPE, reply="receipt"), Pending[Receipt])
    assert_type(context.load(scope=SCOPE, sources=[], reply="context"), Pending[Context])
    assert_type(context.load(scope=SCOPE, sources=[], reply="none"), Pending[None])
    assert_type(context.load(ditto=ditto, scope=SCOPE).get(), Receipt | Context | None)
    assert_type(context.select(context=EMPTY, purpose="memory"), Pending[ContextSelection])
    assert_type(context.select(scope=SCOPE, purpose="infer", reply="context"), Pending[ContextSelection])
    explained = context.select(scope=SCOPE, purpose="infer", reply="receipt", explain=True)
    assert_type(explained, Pending[Receipt])
    assert_type(context.select(scope=SCOPE, purpose="infer", reply="none"), Pending[None])
    assert_type(
        context.select(scope=SCOPE, purpose="infer", ditto=ditto).get(), Receipt | ContextSelection | None
    )
    assert_type(context.update(scope=SCOPE, reply="receipt", on_missing="create"), Pending[Receipt])
    assert_type(context.update(scope={"sessionId": "s"}, reply="context"), Pending[Context])
    assert_type(context.update(scope=SCOPE, reply="none"), Pending[None])
    assert_type(context.update(context=EMPTY, remove_ids=["a"]), Pending[Context])
    assert_type(context.update(scope=SCOPE, ditto=ditto).get(), Receipt | Context | None)
    assert_type(context.compress(scope=SCOPE, max_items=1, explain=True), Pending[Receipt])
    assert_type(context.compress(scope=SCOPE, reply="context"), Pending[Context])
    assert_type(context.compress(scope=SCOPE, reply="none"), Pending[None])
    assert_type(context.compress(context={"items": []}, max_tokens=1), Pending[Context])
    assert_type(context.compress(scope=SCOPE, ditto=ditto).get(), Receipt | Context | None)


def every_node(client: Ditto) -> None:
    """Each method of the other domains, by what its pending result gives."""
    memory, infer, act = client.memory, client.infer, client.interaction
    assert_type(memory.get(ids=[]), Pending[NodeReply[tuple[MemoryItem, ...]]])
    assert_type(memory.query(limit=1), Pending[NodeReply[QueryPage]])
    assert_type(memory.search(query="q"), Pending[NodeReply[tuple[MemorySearchResult, ...]]])
    assert_type(memory.write(memories=[MemoryDraft(content=1)]), Pending[NodeReply[tuple[MemoryItem, ...]]])
    patch = {"id": "m", "content": 1}
    assert_type(memory.update(memories=[patch]), Pending[NodeReply[tuple[MemoryItem, ...]]])
    assert_type(memory.delete(ids=[], operation_id="o"), Pending[NodeReply[DeleteOutput]])
    found = client.retrieval.search(query={"content": "q"}, target={"name": "docs"}, deadline_ms=1)
    assert_type(found, Pending[NodeReply[RetrievalOutput]])
    assert_type(infer.sample(messages=[], retries=1, tenant="a"), Pending[NodeReply[Sample]])
    assert_type(infer.trajectory(messages=[], strategy={"name": "cot"}), Pending[NodeReply[Trajectory]])
    assert_type(infer.reflect(target={"result": 1}, mode="verify"), Pending[NodeReply[Reflection]])
    assert_type(infer.deliberate(candidates=[], on_unknown="repeat"), Pending[NodeReply[Deliberation]])
    assert_type(infer.cache_lookup(key={}), Pending[NodeReply[Lookup]])
    assert_type(infer.cache_write(key={}, value=None), Pending[NodeReply[Written]])
    assert_type(infer.cache_invalidate(tag="t").get().value(), Invalidated)
    assert_type(act.tool(call=ToolCall(id="c", name="n", arguments={})), Pending[ExternalResult])
    assert_type(act.mcp(operation="discover"), Pending[Discovery | Invocation])
    assert_type(act.observe(result={}, timeout_ms=1), Pending[Observation])
    assert_type(act.output(delivery_id="d", message={}), Pending[OutputReceipt])


def every_flow(client: Ditto) -> None:
    """What the flows give, as it is read."""
    assert_type(client.skill(sources=[]).get().output, Context)
    assert_type(client.tool(scope=SCOPE, call={}).get().observation, Observation)
    assert_type(client.mcp(scope=SCOPE, request={}).get().observation, Observation | None)


async def every_node_awaited(client: AsyncDitto) -> None:
    """The same table, awaited."""
    context, target = client.context, {"name": "docs"}
    assert_type(await context.load(scope=SCOPE), Context)
    assert_type(await context.compress(scope=SCOPE), Receipt)
    assert_type(await context.update(scope=SCOPE, reply="context"), Context)
    assert_type(await context.update(scope=SCOPE, reply="none"), None)
    assert_type(await context.update(scope=SCOPE, ditto={}), Receipt | Context | None)
    assert_type(await context.select(scope=SCOPE, purpose="infer"), ContextSelection)
    assert_type((await client.memory.get(ids=[])).value(), tuple[MemoryItem, ...])
    found = client.retrieval.search(query={"content": "q"}, target=target)
    assert_type(found, AsyncPending[NodeReply[RetrievalOutput]])
    assert_type(await client.infer.deliberate(candidates=[]), NodeReply[Deliberation])
    assert_type(await client.interaction.observe(result={}), Observation)
    assert_type(await client.result("id"), JsonValue)
    assert_type(await client.summarize(scope=SCOPE, max_tokens=9, model={}), Summarized)
    assert_type(client.stream(["id"], "0", bool), AsyncGenerator[Event, None])


async def async_calls(client: AsyncDitto) -> None:
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
    client.context.update({"add": []})  # type: ignore[call-overload]  # input is given by keywords


def refused_keywords(client: Ditto, awaited: AsyncDitto) -> None:
    """A misspelt keyword, one of another node, a value that there is not, and one that is missing."""
    client.context.update(scope=SCOPE, ad=[])  # type: ignore[call-overload]  # misspelt
    awaited.context.update(scope=SCOPE, ad=[])  # type: ignore[call-overload]  # misspelt
    client.context.update(scope=SCOPE, reply="contxt")  # type: ignore[call-overload]  # no such reply
    client.context.load(scope=SCOPE, on_missing="create")  # type: ignore[call-overload]  # of UPDATE
    client.context.load()  # type: ignore[call-overload]  # neither scope nor sources
    client.context.select(scope=SCOPE)  # type: ignore[call-overload]  # for which purpose?
    client.context.select(scope=SCOPE, purpose="infr")  # type: ignore[call-overload]  # no such purpose
    # the explanation comes with the receipt only
    client.context.select(scope=SCOPE, purpose="infer", explain=True)  # type: ignore[call-overload]  # see above
    client.memory.search(query="q", limt=1)  # type: ignore[call-arg]  # misspelt
    awaited.memory.search(query="q", limt=1)  # type: ignore[call-arg]  # misspelt
    client.memory.search(query="q", reply="none")  # type: ignore[call-arg]  # an option of CONTEXT
    client.memory.write()  # type: ignore[call-arg]  # of what?
    client.infer.reflect(target={}, mode="revize")  # type: ignore[arg-type]  # no such mode
    client.interaction.tool(call={}, retries=1)  # type: ignore[call-arg]  # an option of INFER
