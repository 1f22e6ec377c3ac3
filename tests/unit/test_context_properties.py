"""What holds for every context, however odd."""

from __future__ import annotations

import copy
import json
import math
from functools import cmp_to_key
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.contexts import ids
from support.json_strategies import TEXT, contexts, items, json_values

from ditto_tasks.context import Context, ContextNodes, default_select, is_protected, parse_context
from ditto_tasks.context.items import call_id
from ditto_tasks.errors import ContextError
from ditto_tasks.json_values import decode, encode
from ditto_tasks.models import to_wire

BUDGETS = st.fixed_dictionaries({}, optional={"maxItems": st.integers(0, 6), "maxTokens": st.integers(0, 30)})
QUERIES = st.fixed_dictionaries(
    {"purpose": st.sampled_from(["infer", "memory"])},
    optional={"query": TEXT | json_values(3), "limit": st.integers(0, 6), "maxTokens": st.integers(0, 30)},
)
NODES = ContextNodes()


def tokens(context: Context) -> int:
    return sum(-(-item.inline_bytes // 4) for item in context.items)


def within(context: Context, budget: dict[str, Any], items_key: str) -> bool:
    count, limit = len(context.items), budget.get(items_key, 256)
    return count <= limit and tokens(context) <= budget.get("maxTokens", float("inf"))


def compressed(request: dict[str, Any]) -> Context | None:
    """The compressed context, or None where the protected items alone are over the budget."""
    try:
        return NODES.compress(request)
    except ContextError as error:
        if error.code == "BUDGET_UNSATISFIABLE":
            return None
        raise


@given(contexts(), BUDGETS)
def test_compress_keeps_its_promises(wire: dict[str, Any], budget: dict[str, Any]) -> None:
    """Budgets hold, order stays, groups are whole, protected items are there; else it is unsatisfiable."""
    before = parse_context(wire)
    after = compressed({"context": before, **budget})
    if after is None:
        kept = {call_id(item) for item in before.items if is_protected(item)} - {None}
        needed = [item for item in before.items if is_protected(item) or call_id(item) in kept]
        assert not within(Context(items=needed), budget, "maxItems")
        return
    assert within(after, budget, "maxItems")
    assert [item for item in before.items if item in after.items] == list(after.items)
    dropped = [item for item in before.items if item not in after.items]
    assert not any(map(is_protected, dropped))
    assert not ({call_id(item) for item in dropped} & {call_id(item) for item in after.items}) - {None}


@given(contexts(), QUERIES)
def test_select_keeps_its_promises(wire: dict[str, Any], request: dict[str, Any]) -> None:
    """A selection is a part of the ranking, in its order, within limit and budget, and first fit."""
    selection = NODES.select({"context": wire, **request})
    ranking = [item.id for item in default_select({"context": wire, **request})]
    chosen = list(selection.selected_item_ids)
    assert chosen == ids(selection) == [each for each in ranking if each in chosen]
    assert within(selection.context, request, "limit")
    if "maxTokens" not in request:
        assert chosen == ranking[: request.get("limit", 256)]


@given(
    contexts(),
    st.lists(items(), max_size=5),
    st.lists(st.sampled_from("abcdefghijkl"), max_size=5),
    st.sampled_from(["replace", "keep-first"]),
)
def test_update_order(
    wire: dict[str, Any], add: list[dict[str, Any]], remove: list[str], duplicate: str
) -> None:
    """What stays keeps its place, what is new goes to the end in order, and the policy picks the value."""
    updated = ContextNodes(policy={"duplicate": duplicate}).update(context=wire, add=add, remove_ids=remove)
    expected: dict[str, Any] = {item["id"]: item for item in wire["items"] if item["id"] not in remove}
    for item in add:
        if duplicate == "replace" or item["id"] not in expected:
            expected[item["id"]] = item
    assert to_wire(updated) == {"items": list(expected.values())}


@given(contexts(), QUERIES, BUDGETS)
def test_inputs_never_change(wire: dict[str, Any], query: dict[str, Any], budget: dict[str, Any]) -> None:
    """No node changes what it was given."""
    before = copy.deepcopy(wire)
    NODES.load(sources=wire["items"])
    NODES.update(context=wire, add=wire["items"], remove_ids=["a"])
    NODES.select({"context": wire, **query})
    compressed({"context": wire, **budget})
    assert repr(wire) == repr(before)


@given(contexts())
def test_wire_form_round_trips(wire: dict[str, Any]) -> None:
    """A context's wire form is what it was made from, also after a journey through bytes."""
    context = parse_context(wire)
    assert to_wire(context) == wire
    assert (
        parse_context(decode(encode(to_wire(context)))).items
        == parse_context(json.loads(json.dumps(wire))).items
    )
    assert NODES.load(sources=context.items) == context


@given(st.lists(json_values(4), max_size=4))
def test_messages_load_once(contents: list[Any]) -> None:
    """Loading messages twice gives each of them once, under the same id."""
    messages = [{"role": "user", "content": content} for content in contents]
    once, twice = NODES.load(sources=messages), NODES.load(sources=messages * 2)
    assert once == twice
    assert len(ids(once)) == len(set(ids(once)))


EXTREMES = st.sampled_from([1.7e308, -1.7e308, 0.0, 1.0, 2.0])


@given(st.lists(st.tuples(EXTREMES, EXTREMES), max_size=80))
def test_ranking_is_that_of_the_reference_comparator(pairs: list[tuple[float, float]]) -> None:
    """Also with infinite and undefined scores the order is what the reference's comparator gives."""
    metadata = [{"priority": priority, "relevance": relevance} for priority, relevance in pairs]
    wire = [{"id": str(at), "content": 1, "metadata": each} for at, each in enumerate(metadata)]
    scores = [p * 100 + r * 10 + 0.0 + at / len(pairs) for at, (p, r) in enumerate(pairs)]

    def compare(left: int, right: int) -> float:
        difference = scores[right] - scores[left]
        return left - right if math.isnan(difference) or difference == 0 else difference

    ranking = default_select({"context": {"items": wire}, "purpose": "infer"})
    assert [int(item.id) for item in ranking] == sorted(range(len(pairs)), key=cmp_to_key(compare))
