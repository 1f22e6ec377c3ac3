"""CONTEXT by examples: one function for each thing that one can do. Importing this file runs nothing.

python -c 'from examples import context; print(context.select())'
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import redis

from ditto_tasks import EmbeddedServer, InferNodes, create_app, load_settings, to_wire
from ditto_tasks.context import (
    CONTEXT_SELECT,
    Context,
    ContextError,
    ContextExecution,
    ContextItem,
    ContextNodes,
    ContextOperationQueue,
    ContextPolicy,
    ContextReference,
    ContextSelection,
    ContextServices,
    InMemoryContextStore,
    NodeDescriptor,
    RagCandidate,
    RagRequest,
    RedisContextStore,
    RedisOptions,
    Scope,
    SelectInput,
    default_select,
    deterministic_compress,
    rag_strategy,
)
from ditto_tasks.pipelines import (
    RagFlowResult,
    SkillFlowResult,
    context_to_memory,
    context_to_messages,
    memory_to_context,
    observation_to_context,
    output_of,
    rag_flow,
    retrieval_to_context,
    skill_flow,
)

NOTES: dict[str, Any] = {
    "items": [
        {"id": "goal", "content": "plan the trip to Kyoto", "metadata": {"currentGoal": True}},
        {"id": "train", "content": "the night train to Kyoto leaves at nine", "metadata": {"relevance": 2}},
        {"id": "hotel", "content": "the hotel in Kyoto is booked for three nights"},
        {"id": "weather", "content": "rain in Oslo"},
    ]
}
SCOPE = Scope(session_id="trip")


def construct() -> ContextNodes:
    """Nodes with a policy: requests can only tighten its limits."""
    return ContextNodes(policy=ContextPolicy(max_items=10, max_tokens=2_000))


def load() -> Context:
    """Messages, items and references become one context; equal messages become one item."""
    message = {"role": "user", "content": "where do we stay?"}
    reference = {"uri": "file:///notes/kyoto.md", "mediaType": "text/markdown"}
    return ContextNodes().load(sources=[message, message, {"id": "a", "content": [1, 2]}, reference])


def select() -> ContextSelection:
    """The items that matter most for a query, best first, within limits."""
    return ContextNodes().select(context=NOTES, purpose="infer", query="Kyoto train", limit=2)


def update() -> Context:
    """Remove, then add, then take in what another node found."""
    found = {"id": "memory:7", "content": "window seats are on the left", "sourceNode": "MEMORY.SEARCH"}
    return ContextNodes().update(
        context=NOTES,
        remove_ids=["weather"],
        add=[{"id": "hotel", "content": "the hotel is booked for four nights"}],
        ingress=[found],
    )


def compress() -> Context:
    """Fit into a budget: the goal stays, the least valuable items go first."""
    return ContextNodes().compress(context=NOTES, max_items=2)


def execute() -> Context | ContextSelection:
    """The same by the node's type and its wire form, as it comes in a message."""
    return ContextNodes().execute("CONTEXT.COMPRESS", {"context": NOTES, "maxItems": 3})


def cached_calls() -> Context:
    """With a scope the context is stored: later calls name the scope instead of sending the context."""
    nodes = ContextNodes(services=ContextServices(state_store=InMemoryContextStore()))
    nodes.load(scope=SCOPE, sources=NOTES["items"])
    nodes.update(scope=SCOPE, add=[{"id": "budget", "content": "at most 900 euros"}])
    return nodes.load(scope=SCOPE)


def redis_store_with_versions() -> tuple[str, str]:
    """State in Redis; a writer that names the version it read loses against a newer one."""
    with EmbeddedServer() as server, redis.Redis.from_url(server.redis_url()) as client:
        nodes = ContextNodes(redis=RedisOptions(client, ttl_ms=60_000))
        nodes.load(scope=SCOPE, sources=NOTES["items"])
        store = RedisContextStore(client)
        read = store.get(SCOPE)
        version = "" if read is None else read.version
        nodes.update(scope=SCOPE, remove_ids=["weather"], expected_version=version)
        try:
            nodes.update(scope=SCOPE, remove_ids=["hotel"], expected_version=version)
        except ContextError as late:
            return version, late.code
    raise AssertionError("a stale version was accepted")


class WordEstimator:
    """Counts words instead of bytes."""

    def estimate(self, content: object, execution: ContextExecution) -> int:
        return len(str(content).split())


class NewestFirst:
    """A selector: whatever came last."""

    def select(self, request: SelectInput, execution: ContextExecution) -> Sequence[ContextItem]:
        return request.context.items[::-1] if request.context else ()


def custom_services() -> ContextSelection:
    """An own token estimator and an own selector."""
    nodes = ContextNodes(services=ContextServices(token_estimator=WordEstimator(), selector=NewestFirst()))
    return nodes.select(
        context=NOTES, purpose="infer", max_tokens=12, strategy={"kind": "provider", "name": "newest-first"}
    )


def embed_words(request: RagRequest, execution: ContextExecution) -> frozenset[str]:
    """A stand-in for an embedding: the words of the query."""
    return frozenset(str(request.query).lower().split())


def retrieve_overlapping(request: RagRequest, execution: ContextExecution) -> list[RagCandidate]:
    """The items that share words with the query, with how many."""
    words = request.embedding if isinstance(request.embedding, frozenset) else frozenset()
    counted = [(len(words & set(str(item.content).split())), item) for item in request.items]
    return [RagCandidate(item, score=count) for count, item in counted if count]


def rank_by_score(request: RagRequest, execution: ContextExecution) -> list[RagCandidate]:
    """Best first."""
    candidates = [each for each in request.candidates if isinstance(each, RagCandidate)]
    return sorted(candidates, key=lambda each: -(each.score or 0))


def rag() -> ContextSelection:
    """A RAG strategy of three stages: embed, retrieve, rank."""
    strategy = rag_strategy(embed=embed_words, retrieve=retrieve_overlapping, rank=rank_by_score)
    nodes = ContextNodes(services=ContextServices(rag_strategy=strategy))
    return nodes.select(context=NOTES, purpose="infer", query="the Kyoto hotel", strategy={"kind": "rag"})


class TravelGuide:
    """A retrieval provider: it answers a query with candidates of its own."""

    def search(self, query: str, limit: int) -> list[Any]:
        pages = {"gion": "Gion is the old quarter of Kyoto", "nara": "Nara is an hour away from Kyoto"}
        found = {name: text for name, text in pages.items() if query.split()[-1] in text}
        return [{"id": name, "content": text, "score": 1.0} for name, text in found.items()][:limit]


def retrieval_provider_as_rag_strategy() -> ContextSelection:
    """What a retrieval provider finds is selected as if it were in the context."""
    guide = TravelGuide()

    def retrieve(request: RagRequest, execution: ContextExecution) -> list[RagCandidate]:
        found = retrieval_to_context(guide.search(str(request.query), limit=5))
        return [RagCandidate({"id": each["id"], "content": each["content"]}) for each in found]

    nodes = ContextNodes(services=ContextServices(rag_strategy=rag_strategy(retrieve=retrieve)))
    return nodes.select(context=NOTES, purpose="infer", query="what is Nara", strategy={"kind": "rag"})


def context_to_infer() -> str:
    """Selected items become messages; without a configured model the answer is made of quotes."""
    selection = ContextNodes().select(context=NOTES, purpose="infer", query="night train", limit=2)
    messages = context_to_messages(to_wire(selection.context.items), "when does the night train leave?")
    app = create_app(load_settings(None, {}))
    infer: InferNodes = app.dependencies.infer()
    try:
        answer: Any = output_of(to_wire(infer.sample({"messages": messages})))
    finally:
        app.dependencies.close()
    return str(answer["message"]["content"])


def memory_to_context_item() -> Context:
    """What MEMORY.SEARCH found enters the context under the memory's id."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'memory.sqlite3'}"
        app = create_app(load_settings(None, {"DITTO_WORKER_MEMORY_URL": url}))
        memory = app.dependencies.memory()
        try:
            memory.write({"memories": [{"content": "the night train has a dining car"}]})
            found = output_of(to_wire(memory.search({"query": "dining car"})))
        finally:
            app.dependencies.close()
    return ContextNodes().update(context=NOTES, ingress=memory_to_context(found))


def rag_and_skill_flows() -> tuple[RagFlowResult, SkillFlowResult]:
    """Two calls that go together: select by RAG; load a skill's files into a context."""
    strategy = rag_strategy(embed=embed_words, retrieve=retrieve_overlapping)
    nodes = ContextNodes(services=ContextServices(rag_strategy=strategy))
    selected = rag_flow(nodes, NOTES, query="rain", limit=1)
    skill = skill_flow(nodes, [{"id": "skill", "content": "pack light"}], selected.context)
    return selected, skill


def errors() -> list[str]:
    """Every refusal is a ContextError with a code; nothing was changed."""
    nodes = ContextNodes(policy=ContextPolicy(duplicate="reject"))
    attempts: list[tuple[str, Mapping[str, object]]] = [
        ("CONTEXT.SELECT", {"context": NOTES, "purpose": "fun"}),
        ("CONTEXT.FORGET", {}),
        ("CONTEXT.UPDATE", {"context": NOTES, "add": [{"id": "train", "content": "cancelled"}]}),
        ("CONTEXT.LOAD", {"scope": {"sessionId": "trip"}}),
    ]
    codes = []
    for node, request in attempts:
        try:
            nodes.execute(node, request)
        except ContextError as refused:
            codes.append(refused.code)
    return codes


def direct_strategies() -> tuple[list[str], Context]:
    """The built-in strategies as plain functions."""
    best = default_select({"context": NOTES, "purpose": "infer", "query": "hotel"})
    small = deterministic_compress({"context": NOTES, "maxItems": 1}, ContextExecution())
    return [item.id for item in best], small


def count_words(request: Mapping[str, str]) -> dict[str, int]:
    """The handler of a custom node."""
    return {"words": len(request["text"].split())}


def custom_node() -> tuple[str, dict[str, int], ContextSelection]:
    """A node type of one's own, and an own handler for a built-in one."""
    counting = NodeDescriptor("TEXT.COUNT").define(count_words)
    choosing = CONTEXT_SELECT.define(ContextNodes().select)
    selection: ContextSelection = choosing.handler(context=NOTES, purpose="infer", limit=1)
    return counting.type, counting.handler({"text": "three short words"}), selection


def context_to_memory_drafts() -> list[Any]:
    """What is worth keeping leaves the context as memories; private items stay out."""
    notes: dict[str, Any] = {
        "items": [
            {"id": "seat", "content": "prefers a window", "metadata": {"memoryCandidate": True}},
            {"id": "pin", "content": "1234", "metadata": {"private": True}},
        ]
    }
    selection = ContextNodes().select(context=notes, purpose="memory")
    return context_to_memory(to_wire(selection.context.items))


def tool_to_cached_context() -> Context:
    """A tool's observation enters the stored context of a session."""
    observation: dict[str, Any] = {
        "callId": "call-1",
        "source": "timetable",
        "status": "success",
        "message": {"role": "tool", "name": "timetable", "content": "platform 4"},
    }
    nodes = ContextNodes(services=ContextServices(state_store=InMemoryContextStore()))
    nodes.load(scope=SCOPE, sources=NOTES["items"])
    return nodes.update(scope=SCOPE, ingress=[observation_to_context(observation)])


class NotesResolver:
    """Resolves references to notes that it knows; any other URI is refused."""

    def __init__(self, notes: Mapping[str, str]) -> None:
        self._notes = notes

    def resolve(self, reference: ContextReference, execution: ContextExecution) -> str:
        return self._notes[reference.uri]


def local_store_queue_and_resolver() -> Context:
    """All in one process: a store, a queue that keeps a scope's calls in order, and a resolver."""
    services = ContextServices(
        state_store=InMemoryContextStore(ttl_ms=60_000, max_entries=100),
        operation_queue=ContextOperationQueue(max_pending=16),
        reference_resolver=NotesResolver({"note:1": "the key is under the mat"}),
    )
    nodes = ContextNodes(services=services)
    return nodes.load(scope=SCOPE, sources=[{"uri": "note:1"}], resolve_references=True)
