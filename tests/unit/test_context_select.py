"""CONTEXT.SELECT: score, walk and strategies."""

from __future__ import annotations

from typing import Any

import pytest
from support.contexts import context, ids, item, refused

from ditto_tasks.context import (
    ContextExecution,
    ContextNodes,
    ContextServices,
    RagRequest,
    SelectInput,
    default_select,
    rag_strategy,
)
from ditto_tasks.models import to_wire

NODES = ContextNodes()


def ranked(*items: dict[str, Any], purpose: str = "infer", **more: Any) -> list[str]:
    return ids(NODES.select({"context": context(*items), "purpose": purpose, **more}))


def test_newer_items_win_by_default() -> None:
    """Without anything else the last item comes first, and equal scores keep the order of index."""
    assert ranked(item("a"), item("b"), item("c")) == ["c", "b", "a"]
    selection = NODES.select(context=context(item("a")), purpose="infer")
    assert to_wire(selection) == {
        "purpose": "infer",
        "context": context(item("a")),
        "selectedItemIds": ["a"],
    }


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("foo-bar", "ab"),
        ("foo", "b"),
        ("BAR bar bar", "c"),
        (None, "n"),
        ([{"type": "text", "text": "bar"}], "c"),
        ({"bar": 1}, "c"),
    ],
)
def test_words_in_common_count(query: Any, first: str) -> None:
    """The share of the query's distinct words decides; null is the word "null"."""
    found = ranked(
        item("n", "null"), item("ab", "foo-bar"), item("b", "foo x"), item("c", "Bar 1"), query=query
    )
    assert found[0] == first


def test_a_query_without_words_changes_nothing() -> None:
    """Punctuation alone has no words, so the order is that of no query."""
    assert ranked(item("a", "x"), item("b", "y"), query="?!") == ["b", "a"]


def test_priority_equals_full_overlap() -> None:
    """Priority 10 and every word in common are both 1000, so the index decides."""
    assert ranked(item("a", "x"), item("b", "y", priority=10), query="x") == ["b", "a"]
    assert ranked(item("b", "y", priority=10), item("a", "x"), query="x") == ["a", "b"]


def test_priority_can_outrank_protection() -> None:
    """A priority above 10000 beats protected, currentGoal and the system's role."""
    for mark in ({"protected": True}, {"currentGoal": True}, {"role": "system"}):
        assert ranked(item("p", **mark), item("a", priority=9_999))[0] == "p"
        assert ranked(item("p", **mark), item("a", priority=10_001))[0] == "a"
    for weak in ({"protected": 1}, {"safety": True}, {"pending": True}, {"protected": "true"}):
        assert ranked(item("p", **weak), item("a", priority=1))[0] == "a"


@pytest.mark.parametrize("odd", ["5", True, None, [1]])
def test_only_numbers_count(odd: Any) -> None:
    """Priority and relevance of another type are 0."""
    assert ranked(item("a", priority=odd, relevance=odd), item("b")) == ["b", "a"]


def test_overflow_falls_back_to_the_index() -> None:
    """Infinite scores are equal, not a number makes no order: both keep the order of index."""
    assert ranked(item("a", priority=1.7e308), item("b", priority=1.7e308)) == ["a", "b"]
    assert ranked(item("a", priority=1.7e308, relevance=-1.7e308), item("b")) == ["a", "b"]
    assert ranked(item("a", priority=10**300), item("b", priority=10**301)) == ["b", "a"]


def test_memory_purpose() -> None:
    """Private and ineligible items go, after their place was counted; only exact booleans do it."""
    found = ranked(
        item("x", private=True),
        item("y", memoryEligible=False),
        item("a", private="true", memoryEligible=0),
        item("c", memoryCandidate=True),
        item("r", reusable=True, stable=True),
        item("s", stable=1),
        item("p", protected=True),
        purpose="memory",
    )
    assert found == ["c", "r", "p", "s", "a"]
    weights = [item("s", stable=True), item("r", relevance=4.9), item("m", priority=0.99)]
    assert ranked(*weights, purpose="memory") == ["m", "s", "r"]
    assert ranked(item("r", reusable=True), item("m", priority=0.99), purpose="memory") == ["r", "m"]
    assert ranked(item("c", memoryCandidate=True), item("m", priority=4.99), purpose="memory") == ["c", "m"]


def test_budget_skips_and_goes_on() -> None:
    """What does not fit is skipped and a smaller later item is taken; 0 of either selects nothing."""
    items = [item("small", "abcdef"), item("big", "x" * 50), item("top", "abcd", priority=1)]
    assert ranked(*items, maxTokens=4) == ["top", "small"]
    assert ranked(*items, maxTokens=0) == []
    assert ranked(*items, limit=0) == []
    assert ranked(*items, limit=1) == ["top"]


def test_requests_only_tighten_the_policy() -> None:
    """A larger limit or budget than the policy's has no effect."""
    nodes = ContextNodes(policy={"maxItems": 2, "maxTokens": 2})
    given = context(item("a", "1"), item("b", "1"), item("c", "1"))
    for limit in (3, 1_000_000):
        selection = nodes.select(context=given, purpose="infer", limit=limit, max_tokens=limit)
        assert ids(selection) == ["c", "b"]


def test_oversized_item_fails_only_if_reached() -> None:
    """The inline check is for items that the walk comes to, not for those behind the limit."""
    nodes = ContextNodes(policy={"maxInlineBytes": 5})
    given = context(item("over", "toolong"), item("a", "ok"))
    assert ids(nodes.select(context=given, purpose="infer", limit=1)) == ["a"]
    assert refused(nodes.select, context=given, purpose="infer") == "INLINE_LIMIT_EXCEEDED"
    pointing = context({**item("over", "toolong"), "source": {"uri": "u"}})
    assert ids(nodes.select(context=pointing, purpose="infer")) == ["over"]


class Selector:
    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.request: SelectInput | None = None

    def select(self, request: SelectInput, _execution: ContextExecution) -> Any:
        self.request = request
        return self.answer


def chosen(answer: Any, **fields: Any) -> list[str]:
    nodes = ContextNodes(services=ContextServices(selector=Selector(answer)))
    strategy = {"kind": "provider", "name": "n"}
    return ids(nodes.select({"context": context(), "purpose": "infer", "strategy": strategy, **fields}))


def test_selector_may_answer_other_items() -> None:
    """Candidates are walked in their order, each id once, whether they are in the context or not."""
    assert chosen([item("z", 1), item("y", 2), item("z", 3)]) == ["z", "y"]


@pytest.mark.parametrize("answer", [None, {}, "ab", [None], [{"id": ""}], [item("a"), {"id": "b"}], iter([])])
def test_bad_candidates(answer: Any) -> None:
    """What is no list of items is INVALID_PROVIDER_OUTPUT."""
    assert refused(chosen, answer) == "INVALID_PROVIDER_OUTPUT"


def test_walk_stops_after_the_one_at_the_limit() -> None:
    """An invalid candidate just at the limit is refused, one behind it is not looked at."""
    assert refused(chosen, [item("a"), {"bad": 1}], limit=1) == "INVALID_PROVIDER_OUTPUT"
    assert chosen([item("a"), item("b"), {"bad": 1}], limit=1) == ["a"]
    assert refused(chosen, [item("a"), item("a"), {"bad": 1}], limit=1) == "INVALID_PROVIDER_OUTPUT"


def test_an_id_skipped_for_the_budget_counts_as_seen() -> None:
    """A second, smaller candidate with the id of one that did not fit is not taken."""
    assert chosen([item("a", "x" * 50), item("a", 1), item("b", 1)], maxTokens=2) == ["b"]


@pytest.mark.parametrize("kind", ["rag", "provider"])
def test_missing_services(kind: str) -> None:
    """A strategy without its service is STRATEGY_UNAVAILABLE."""
    request = {"context": context(), "purpose": "infer", "strategy": {"kind": kind, "name": "n"}}
    assert refused(NODES.select, request) == "STRATEGY_UNAVAILABLE"


@pytest.mark.parametrize(
    "fields",
    [
        {"purpose": "other"},
        {"purpose": None},
        {"limit": None},
        {"limit": True},
        {"limit": "1"},
        {"limit": 1.5},
        {"limit": -1},
        {"maxTokens": 1_000_001},
        {"query": float("nan")},
        {"strategy": None},
        {"strategy": {"kind": "x"}},
        {"strategy": {"kind": "provider", "name": ""}},
        {"strategy": {"kind": "rag", "corpus": {"uri": ""}}},
        {"strategy": {"kind": "rag", "options": []}},
        {"strategy": {"kind": "provider", "name": "n", "options": None}},
    ],
)
def test_bad_fields(fields: dict[str, Any]) -> None:
    """Each field has its check, before a missing service is found out."""
    request = {"context": context(), "purpose": "infer", "strategy": {"kind": "rag"}, **fields}
    assert refused(NODES.select, request) == "INVALID_INPUT"


def test_rag_stages_see_the_request() -> None:
    """embed, retrieve and rank run in order; the first candidate of an id wins after rank."""
    seen: list[RagRequest] = []

    def embed(request: RagRequest, execution: ContextExecution) -> list[float]:
        seen.append(request)
        return [0.5]

    def retrieve(request: RagRequest, _execution: ContextExecution) -> Any:
        seen.append(request)
        return [{"item": item("a", 1), "score": 1}, {"item": item("b", 2)}, {"item": item("a", 3)}]

    def rank(request: RagRequest, _execution: ContextExecution) -> Any:
        seen.append(request)
        return list(reversed(request.candidates))

    services = ContextServices(rag_strategy=rag_strategy(embed=embed, retrieve=retrieve, rank=rank))
    strategy = {"kind": "rag", "corpus": {"uri": "urn:c"}, "options": {"k": 1}}
    selection = ContextNodes(services=services).select(
        context=context(item("i")), purpose="infer", query="q", strategy=strategy
    )
    assert [(each.id, each.content) for each in selection.context.items] == [("a", 3), ("b", 2)]
    base, retrieved, last = seen
    assert (base.query, base.options, [each.id for each in base.items]) == ("q", {"k": 1}, ["i"])
    assert to_wire(base.corpus) == {"uri": "urn:c"}
    assert (base.embedding, retrieved.embedding, len(last.candidates)) == (None, [0.5], 3)


def test_rag_failures() -> None:
    """A candidate without an item is a raw TypeError; no list is INVALID_PROVIDER_OUTPUT."""

    def nodes(answer: Any) -> ContextNodes:
        return ContextNodes(services=ContextServices(rag_strategy=rag_strategy(retrieve=lambda *_: answer)))

    request = {"context": context(), "purpose": "infer", "strategy": {"kind": "rag"}}
    for candidates in ([{}], [None], [{"item": None}]):
        with pytest.raises(TypeError):
            nodes(candidates).select(request)
    for answer in (None, {"item": item("a")}, [{"item": 5}], [{"item": {"id": []}}]):
        assert refused(nodes(answer).select, request) == "INVALID_PROVIDER_OUTPUT"


def test_default_select_is_public() -> None:
    """The ranking can be had without the walk."""
    request = {"context": context(item("a"), item("b")), "purpose": "infer"}
    assert [each.id for each in default_select(request)] == ["b", "a"]
