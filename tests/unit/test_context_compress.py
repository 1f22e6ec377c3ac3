"""CONTEXT.COMPRESS: groups, protection, budgets, and the check of every result."""

from __future__ import annotations

from typing import Any

import pytest
from support.contexts import context, ids, item, refused

from ditto_tasks.context import (
    CompressInput,
    ContextExecution,
    ContextNodes,
    ContextServices,
    deterministic_compress,
    is_protected,
    parse_context,
)

NODES = ContextNodes()


def kept(*items: dict[str, Any], **budget: Any) -> list[str]:
    return ids(NODES.compress({"context": context(*items), **budget}))


def test_least_worth_goes_first() -> None:
    """Priority, relevance and age decide; the survivors keep their order."""
    items = [item("old"), item("new"), item("dear", priority=1), item("rel", relevance=1)]
    assert kept(*items, maxItems=3) == ["new", "dear", "rel"]
    assert kept(*items, maxItems=2) == ["dear", "rel"]
    assert kept(*items, maxItems=1) == ["dear"]
    assert kept(*items, maxItems=0) == []
    assert kept(*items) == ["old", "new", "dear", "rel"]


def test_retrievable_cancels_a_relevance_of_one() -> None:
    """Retrievable is -10, relevance 1 is 10; only exactly true counts."""
    assert kept(item("r", relevance=1, retrievable=True), item("a"), maxItems=1) == ["a"]
    assert kept(item("r", relevance=1, retrievable=1), item("a"), maxItems=1) == ["r"]


def test_groups_stay_or_go_together() -> None:
    """Items of one callId need not be adjacent; the best member speaks for all."""
    items = [item("c1", callId="k"), item("x"), item("c2", callId="k", priority=1), item("y")]
    assert kept(*items, maxItems=2) == ["c1", "c2"]
    assert kept(*items, maxItems=1) == []
    assert kept(item("a", callId=""), item("b", callId=""), maxItems=1) == ["b"]
    assert kept(item("a", callId=1), item("b", callId=1), maxItems=1) == ["b"]


def test_one_protected_member_protects_its_group() -> None:
    """Unprotected members of a protected group are kept, and count against the budget."""
    items = [item("c1", callId="k"), item("c2", callId="k", pending=True), item("x", priority=9)]
    assert kept(*items, maxItems=2) == ["c1", "c2"]
    assert refused(kept, *items, maxItems=1) == "BUDGET_UNSATISFIABLE"
    assert refused(kept, item("p", role="system"), maxItems=0) == "BUDGET_UNSATISFIABLE"
    assert refused(kept, item("p", "x" * 10, safety=True), maxTokens=2) == "BUDGET_UNSATISFIABLE"


@pytest.mark.parametrize(
    ("metadata", "protected"),
    [
        ({"protected": True}, True),
        ({"safety": True}, True),
        ({"currentGoal": True}, True),
        ({"pending": True}, True),
        ({"role": "system"}, True),
        ({"role": "user", "protected": 1, "safety": "true"}, False),
        ({}, False),
    ],
)
def test_what_is_protected(metadata: dict[str, Any], protected: bool) -> None:
    """Four flags, exactly true, and the system's role protect."""
    assert is_protected(parse_context(context(item("a", **metadata))).items[0]) is protected


def test_greedy_drops_what_does_not_help() -> None:
    """From the lowest up groups go until both budgets hold, small ones too, and none comes back."""
    items = [item("tiny", 1), item("huge", "x" * 100, priority=1), item("top", 1, priority=2)]
    assert kept(*items, maxTokens=10) == ["top"]


def test_inline_check_is_for_survivors() -> None:
    """An oversized item may be dropped; kept, it is refused."""
    nodes = ContextNodes(policy={"maxInlineBytes": 5})
    given = context(item("over", "toolong"), item("a", "ok"))
    assert ids(nodes.compress(context=given, max_items=1)) == ["a"]
    assert refused(nodes.compress, context=given) == "INLINE_LIMIT_EXCEEDED"


def test_overflowing_scores_keep_the_index_order() -> None:
    """Infinite and undefined scores fall back to the order of index."""
    huge = {"priority": 1.7e308}
    assert kept(item("a", **huge), item("b", **huge), item("c"), maxItems=1) == ["b"]
    assert kept(item("a", priority=1.7e308, relevance=-1.7e308), item("b"), maxItems=1) == ["b"]


def test_requests_only_tighten_the_policy() -> None:
    """A larger budget than the policy's has no effect."""
    nodes = ContextNodes(policy={"maxItems": 2, "maxTokens": 3})
    given = context(*(item(each, 1) for each in "abcd"))
    assert ids(nodes.compress(context=given, max_items=9, max_tokens=9)) == ["c", "d"]
    assert ids(nodes.compress(context=given, max_tokens=1)) == ["d"]


@pytest.mark.parametrize("field", ["maxItems", "maxTokens"])
@pytest.mark.parametrize("value", [None, True, "1", 1.5, -1, 2**70, float("nan"), 10**400, [1]])
def test_bad_counts(field: str, value: Any) -> None:
    """A budget is a whole number from 0 to a million."""
    assert refused(NODES.compress, {"context": context(), field: value}) == "INVALID_INPUT"


def test_whole_floats_are_counts() -> None:
    """1.0 is 1, as in JavaScript."""
    assert kept(item("a"), item("b"), maxItems=1.0) == ["b"]


class Compressor:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def compress(self, request: CompressInput, _execution: ContextExecution) -> Any:
        self.request = request
        return self.answer


GIVEN = (item("p", protected=True), item("c1", callId="k"), item("c2", callId="k"), item("x"))


def injected(answer: Any, *items: dict[str, Any], **budget: Any) -> list[str]:
    nodes = ContextNodes(
        policy={"maxInlineBytes": 20}, services=ContextServices(compressor=Compressor(answer))
    )
    return ids(nodes.compress({"context": context(*(items or GIVEN)), **budget}))


@pytest.mark.parametrize(
    ("answer", "budget"),
    [
        (None, {}),
        ({"items": [{"id": "p"}]}, {}),
        (context(item("p"), item("p")), {}),
        (context(item("p"), item("new")), {}),
        (context(item("x")), {}),
        (context(item("p"), item("c1")), {}),
        (context(item("p"), item("x")), {"maxItems": 1}),
        (context(item("p", "x" * 15)), {"maxTokens": 3}),
    ],
)
def test_results_are_checked(answer: Any, budget: dict[str, int]) -> None:
    """No context, new ids, a missing protected item, a split group or a broken budget are refused."""
    assert refused(injected, answer, **budget) == "INVALID_PROVIDER_OUTPUT"


def test_a_compressor_may_reorder_and_rewrite() -> None:
    """Order and content are free; the inline limit is checked last."""
    assert injected(context(item("c2"), item("c1"), item("p", "new"))) == ["c2", "c1", "p"]
    assert refused(injected, context(item("p", "x" * 30))) == "INLINE_LIMIT_EXCEEDED"


def test_a_compressor_gets_the_tightened_budgets() -> None:
    """The request that it sees has the policy's ceilings merged in."""
    compressor = Compressor(context())
    nodes = ContextNodes(policy={"maxItems": 7}, services=ContextServices(compressor=compressor))
    nodes.compress(context=context(), max_items=9)
    assert (compressor.request.max_items, compressor.request.max_tokens) == (7, None)


class Estimator:
    def __init__(self, answers: Any) -> None:
        self.answers = answers
        self.asked: list[Any] = []

    def estimate(self, content: Any, _execution: ContextExecution) -> Any:
        self.asked.append(content)
        return self.answers(content) if callable(self.answers) else self.answers


def estimating(answers: Any) -> tuple[ContextNodes, Estimator]:
    estimator = Estimator(answers)
    return ContextNodes(services=ContextServices(token_estimator=estimator)), estimator


def test_estimator_runs_once_an_item_and_once_a_survivor() -> None:
    """With a budget every input item is counted, and the survivors once more; without one none is."""
    nodes, estimator = estimating(lambda content: content)
    given = context(item("a", 5), item("b", 1), item("c", 2))
    assert ids(nodes.compress(context=given, max_tokens=3)) == ["b", "c"]
    assert estimator.asked == [5, 1, 2, 1, 2]
    nodes.compress(context=given)
    nodes.select(context=given, purpose="infer")
    assert len(estimator.asked) == 5


@pytest.mark.parametrize("answer", [-1, 1.5, "3", True, float("nan"), 2**53, [1]])
def test_bad_estimates(answer: Any) -> None:
    """What is no safe integer >= 0 is INVALID_PROVIDER_OUTPUT, in COMPRESS and SELECT."""
    nodes, _ = estimating(answer)
    given = context(item("a"))
    assert refused(nodes.compress, context=given, max_tokens=9) == "INVALID_PROVIDER_OUTPUT"
    assert refused(nodes.select, context=given, purpose="infer", max_tokens=9) == "INVALID_PROVIDER_OUTPUT"


def test_no_estimate_falls_back() -> None:
    """An estimator that answers None leaves the count to the bytes; 0 and 2.0 are counts."""
    given = context(item("a", "x" * 10))
    for answer, budget in ((None, 3), (0, 0), (2.0, 2)):
        assert ids(estimating(answer)[0].compress(context=given, max_tokens=budget)) == ["a"]
    assert ids(estimating(None)[0].compress(context=given, max_tokens=2)) == []


def test_deterministic_compress_is_public() -> None:
    """The default strategy can be called by itself."""
    request = {"context": context(item("a"), item("b")), "maxItems": 1}
    assert ids(deterministic_compress(request, ContextExecution())) == ["b"]
