"""The nodes object: construction, dispatch, forms of input, cancellation, async."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from pydantic import ValidationError
from support.contexts import context, ids, item, refused

from ditto_tasks.cancellation import CancelToken
from ditto_tasks.context import (
    CONTEXT_LOAD,
    AsyncContextNodes,
    AsyncContextOperationQueue,
    CompressInput,
    Context,
    ContextExecution,
    ContextItem,
    ContextNodes,
    ContextOperationQueue,
    ContextPolicy,
    ContextServices,
    InMemoryContextStore,
    SelectInput,
    compress_node,
    load_node,
    rag_strategy,
    select_node,
    update_node,
)
from ditto_tasks.errors import ContextError
from ditto_tasks.models import from_wire, to_wire

NODES = ContextNodes()
CANCELLED = CancelToken()
CANCELLED.cancel(KeyError("stop"))


@pytest.mark.parametrize("node", ["toString", "CONTEXT.NOPE", "context.load", "", None, 5, [], {}])
def test_unknown_nodes(node: Any) -> None:
    """A node is unknown before its input is looked at."""
    assert refused(NODES.execute, node, None) == "UNKNOWN_NODE"


@pytest.mark.parametrize("value", [None, [], "text", 5, True, object(), ContextItem])
def test_inputs_are_objects(value: Any) -> None:
    """Everything but an object is INVALID_INPUT for every node."""
    for node in ("LOAD", "SELECT", "UPDATE", "COMPRESS"):
        assert refused(NODES.execute, f"CONTEXT.{node}", value) == "INVALID_INPUT"


def test_cancelled_on_entry() -> None:
    """A call that is cancelled already raises its reason before the node is looked up."""
    with pytest.raises(KeyError, match="stop"):
        NODES.execute("CONTEXT.NOPE", None, call=CANCELLED)


def test_forms_of_input_are_one() -> None:
    """Wire dict, input model, keyword arguments and a mix give the same result."""
    given = context(item("a"), item("b"))
    expected = NODES.compress({"context": given, "maxItems": 1})
    assert NODES.compress(context=given, max_items=1) == expected
    assert NODES.compress(CompressInput(context=given, max_items=1)) == expected
    assert NODES.compress({"context": Context(items=given["items"])}, max_items=1) == expected
    assert compress_node({"context": given, "maxItems": 1}, ContextExecution()) == expected


def test_unknown_keys_are_ignored() -> None:
    """Fields that no node knows do not matter, whatever they are called or hold."""
    odd: dict[str, Any] = {"self": 1, "request": 2, "node": 3, "\ud800": object(), "__type__": "datetime"}
    assert ids(NODES.load({"sources": [], **odd})) == []
    assert ids(NODES.update(context=context(), self=1, request=2)) == []


def test_low_level_functions() -> None:
    """The nodes exist as functions of an input and an execution."""
    execution = ContextExecution()
    loaded = load_node({"sources": [item("a")]}, execution)
    assert ids(update_node({"context": loaded, "add": [item("b")]}, execution)) == ["a", "b"]
    assert ids(select_node(SelectInput(context=loaded, purpose="infer"), execution)) == ["a"]


def test_results_are_frozen_at_every_depth() -> None:
    """Assigning anywhere in a result raises."""
    result = NODES.load(sources=[item("a", {"k": [1]}, tags=["t"])])
    first = result.items[0]
    with pytest.raises(ValidationError):
        result.items = ()
    with pytest.raises(ValidationError):
        first.content = 1
    with pytest.raises(ValidationError):
        first.other = 1
    with pytest.raises(TypeError):
        first.content["k"].append(2)
    with pytest.raises(TypeError):
        first.metadata["tags"][0] = "x"


def test_models_check_whatever_way_they_are_made() -> None:
    """By keyword, by pydantic, from the wire and by copying: the same checks with the same error."""
    good = ContextItem(id="a", content=None)
    for make in (
        lambda: ContextItem(id="", content=1),
        lambda: ContextItem.model_validate({"id": "", "content": 1}),
        lambda: from_wire(ContextItem, {"id": "", "content": 1}, error=ContextError),
        lambda: good.model_copy(update={"id": ""}),
    ):
        assert refused(make) == "INVALID_INPUT"
    assert to_wire(good.model_copy(update={"content": 2})) == {"id": "a", "content": 2}


@pytest.mark.parametrize(
    "policy",
    [
        {"maxItems": 0},
        {"maxItems": 1_000_001},
        {"maxTokens": None},
        {"maxInlineBytes": "5"},
        {"maxItems": True},
        {"maxTokens": 1.5},
        {"duplicate": ""},
        {"duplicate": ["replace"]},
        {"missingRemoval": "keep-first"},
        [],
        5,
    ],
)
def test_bad_policies(policy: Any) -> None:
    """A bad policy is refused when the nodes object is made."""
    assert refused(ContextNodes, policy=policy) == "INVALID_INPUT"


def test_policies() -> None:
    """Null means the default, unknown keys are dropped, 2.0 is 2, and a model does as well."""
    wire = {"maxItems": None, "duplicate": None, "maxTokens": 2.0, "more": 1}
    policy = ContextNodes(policy=wire).policy
    assert policy == ContextPolicy(max_tokens=2)
    assert ContextNodes(policy=policy).policy is policy
    assert to_wire(policy) == {
        "maxInlineBytes": 65_536,
        "maxItems": 256,
        "maxTokens": 2,
        "duplicate": "replace",
        "missingRemoval": "ignore",
    }


class Cancelling:
    """An estimator and resolver that cancels the call that it serves."""

    def __init__(self) -> None:
        self.token = CancelToken()
        self.asked = 0

    def estimate(self, _content: Any, execution: ContextExecution) -> int:
        return self._cancel(execution)

    def resolve(self, _reference: Any, execution: ContextExecution) -> int:
        return self._cancel(execution)

    def _cancel(self, execution: ContextExecution) -> int:
        assert execution.call is self.token
        assert execution.runtime == "lent"
        self.asked += 1
        self.token.cancel(KeyError("stop"))
        return -1  # no estimate: the reason must come first


@pytest.mark.parametrize(
    ("node", "request_"),
    [
        ("CONTEXT.COMPRESS", {"context": context(item("a"), item("b")), "maxTokens": 9}),
        ("CONTEXT.SELECT", {"context": context(item("a"), item("b")), "purpose": "infer", "maxTokens": 9}),
        ("CONTEXT.LOAD", {"sources": [{"uri": "u"}, {"uri": "v"}], "resolveReferences": True}),
    ],
)
def test_cancelled_between_items(node: str, request_: dict[str, Any]) -> None:
    """After an estimate and after a resolve the call stops with its reason."""
    service = Cancelling()
    services = ContextServices(token_estimator=service, reference_resolver=service)
    with pytest.raises(KeyError, match="stop"):
        ContextNodes(services=services, runtime="lent").execute(node, request_, call=service.token)
    assert service.asked == 1


class CountingToken(CancelToken):
    """Counts how often the work asks."""

    checks = 0

    def raise_if_cancelled(self) -> None:
        self.checks += 1


TWO = context(item("a", 1), item("b", 1))


@pytest.mark.parametrize(
    ("node", "fields", "inside"),
    [
        ("CONTEXT.LOAD", {"sources": TWO["items"]}, 2),
        ("CONTEXT.UPDATE", {"context": TWO, "add": TWO["items"]}, 0),
        ("CONTEXT.SELECT", {"context": TWO, "purpose": "infer"}, 0),
        ("CONTEXT.SELECT", {"context": TWO, "purpose": "infer", "maxTokens": 1}, 4),
        ("CONTEXT.COMPRESS", {"context": TWO}, 0),
        ("CONTEXT.COMPRESS", {"context": TWO, "maxTokens": 1}, 6),
    ],
)
def test_check_points(node: str, fields: dict[str, Any], inside: int) -> None:
    """On entry and after the node; before each source; before and after each estimate; nowhere else."""
    token = CountingToken()
    NODES.execute(node, fields, call=token)
    assert token.checks == 2 + inside


def test_cancelled_between_rag_stages() -> None:
    """A call that is cancelled while it embeds does not retrieve."""
    token = CancelToken()
    stages: list[str] = []
    strategy = rag_strategy(
        embed=lambda *_: token.cancel(KeyError("stop")), retrieve=lambda *_: stages.append("retrieve") or []
    )
    nodes = ContextNodes(services=ContextServices(rag_strategy=strategy))
    with pytest.raises(KeyError, match="stop"):
        nodes.select(context=context(), purpose="infer", strategy={"kind": "rag"}, call=token)
    assert stages == []


def test_cancelled_after_the_node() -> None:
    """An explicit call is checked once more when its node has run."""
    token = CancelToken()

    class Selector:
        def select(self, *_: object) -> list[Any]:
            token.cancel(KeyError("stop"))
            return []

    nodes = ContextNodes(services=ContextServices(selector=Selector()))
    with pytest.raises(KeyError, match="stop"):
        nodes.select(
            context=context(), purpose="infer", strategy={"kind": "provider", "name": "n"}, call=token
        )


def test_descriptors_define_nodes() -> None:
    """A descriptor names its node and makes the definition that serves it."""
    definition = CONTEXT_LOAD.define(NODES.load)
    assert (CONTEXT_LOAD.type, definition.type, definition.handler) == ("CONTEXT.LOAD",) * 2 + (NODES.load,)


class AsyncServices:
    """Every service, async, and an async store over the in-memory one."""

    def __init__(self) -> None:
        self.store = InMemoryContextStore()

    async def estimate(self, *_: object) -> int:
        return 1

    async def resolve(self, reference: Any, *_: object) -> Any:
        return [reference.uri]

    async def select(self, *_: object) -> Any:
        return [item("picked")]

    async def compress(self, request: CompressInput, *_: object) -> Any:
        return request.context

    async def get(self, *args: Any) -> Any:
        return self.store.get(*args)

    async def compare_and_set(self, *args: Any) -> Any:
        return self.store.compare_and_set(*args)


async def _all_async() -> list[list[str]]:
    own: Any = AsyncServices()
    rag = rag_strategy(retrieve=lambda *_: _candidates())
    queue = AsyncContextOperationQueue()
    services = ContextServices(own, own, own, rag, own, own, queue)
    nodes = AsyncContextNodes(services=services)
    scope = {"sessionId": "s"}
    loaded = await nodes.load(scope=scope, sources=[{"uri": "u"}], resolve_references=True)
    await asyncio.gather(*(nodes.update(scope=scope, add=[item(each)]) for each in "abc"))
    rag_pick = await nodes.select(scope=scope, purpose="infer", strategy={"kind": "rag"})
    picked = await nodes.select(
        context=context(), purpose="infer", max_tokens=1, strategy={"kind": "provider", "name": "n"}
    )
    compressed = await nodes.compress(scope=scope)
    return [[str(loaded.items[0].content)], ids(rag_pick), ids(picked), ids(compressed)[1:]]


async def _candidates() -> list[Any]:
    return [{"item": item("found")}]


def test_async_nodes_take_async_services() -> None:
    """Async services, store, stages and queue work, and concurrent updates of a scope do not conflict."""
    assert asyncio.run(_all_async()) == [["['u']"], ["found"], ["picked"], ["a", "b", "c"]]


def test_async_nodes_take_sync_services() -> None:
    """Sync services and stores do as well, and errors are the same."""
    nodes = AsyncContextNodes(services=ContextServices(state_store=InMemoryContextStore()))
    call: Coroutine[Any, Any, Context] = nodes.update(scope={"sessionId": "s"})
    with pytest.raises(ContextError) as caught:
        asyncio.run(call)
    assert caught.value.code == "CONTEXT_NOT_FOUND"


def test_each_form_has_its_queue() -> None:
    """A queue that could not keep the calls in order is refused when the nodes object is made."""
    for_threads = ContextServices(operation_queue=ContextOperationQueue())
    for_loops = ContextServices(operation_queue=AsyncContextOperationQueue())
    assert refused(AsyncContextNodes, services=for_threads) == "INVALID_INPUT"
    assert refused(ContextNodes, services=for_loops) == "INVALID_INPUT"


def test_sync_nodes_name_the_remedy_for_async_services() -> None:
    """An async service in sync nodes is a TypeError that says what to use."""
    own: Any = AsyncServices()
    nodes = ContextNodes(services=ContextServices(token_estimator=own))
    with pytest.raises(TypeError, match="AsyncContextNodes"):
        nodes.compress(context=context(item("a")), max_tokens=1)
