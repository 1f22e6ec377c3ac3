"""The conversation strategies: what they keep, and that a provider accepts it under any budget."""

from __future__ import annotations

from typing import Any

import pytest
from support.contexts import ids, refused
from support.conversations import in_parallel, session
from support.provider_rules import anthropic_faults, openai_faults

from ditto_tasks.context import (
    Context,
    ContextNodes,
    ContextSelection,
    ContextServices,
    SelectInput,
    parse_context,
)
from ditto_tasks.context.base import ContextExecution
from ditto_tasks.context.conversations import (
    ConversationCompressor,
    ConversationSelector,
    read_openai,
    write_anthropic,
    write_openai,
)
from ditto_tasks.context.named import NamedCompressors, NamedSelectors
from ditto_tasks.context.opening import open_context
from ditto_tasks.errors import ContextError
from ditto_tasks.settings import default_settings

SERVICES = ContextServices(selector=ConversationSelector(), compressor=ConversationCompressor())
NODES = ContextNodes(services=SERVICES)
BUDGETS = [{"maxTokens": size} for size in range(400, 4001, 400)] + [
    {"limit": count} for count in range(1, 41, 3)
]


def strategy(**options: str) -> dict[str, Any]:
    return {"kind": "provider", "name": "conversation", "options": options}


def context_of(*messages: dict[str, Any]) -> Context:
    return NODES.load(sources=read_openai(list(messages)))


def select(context: Context, *, options: dict[str, str] | None = None, **request: Any) -> Context:
    asked = {"context": context, "purpose": "infer", "strategy": strategy(**(options or {})), **request}
    result = NODES.execute("CONTEXT.SELECT", asked)
    assert isinstance(result, ContextSelection)
    return result.context


def compress(context: Context, **request: Any) -> Context:
    sizes = {{"limit": "maxItems"}.get(key, key): value for key, value in request.items()}
    result = NODES.execute("CONTEXT.COMPRESS", {"context": context, **sizes})
    assert isinstance(result, Context)
    return result


def tokens(context: Context) -> int:
    return sum(-(-item.inline_bytes // 4) for item in context.items)


def least(context: Context, **request: Any) -> dict[str, Any]:
    """What the refusal of a budget says would do."""
    with pytest.raises(ContextError) as caught:
        select(context, **request)
    assert caught.value.code == "BUDGET_TOO_SMALL"
    return dict(caught.value.details or {})


def user(text: str = "hello") -> dict[str, Any]:
    return {"role": "user", "content": text}


def says(text: str = "fine") -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def calling(*call_ids: str) -> dict[str, Any]:
    function = {"name": "find", "arguments": "{}"}
    calls = [{"id": each, "type": "function", "function": function} for each in call_ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def answer(call_id: str, content: str = "found") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


@pytest.mark.parametrize("cut", [select, compress])
@pytest.mark.parametrize("shape", [list, in_parallel])
@pytest.mark.parametrize("seed", range(6))
def test_every_budget_leaves_a_list_that_providers_accept(cut: Any, shape: Any, seed: int) -> None:
    """Under every budget and limit what is left is valid, within it, and has the latest user message."""
    messages = shape(session(seed, messages=44, system_words=100))
    context = context_of(*messages)
    latest = [message["content"] for message in messages if message["role"] == "user"][-1]
    for budget in BUDGETS:
        try:
            left = cut(context, **budget)
        except ContextError as problem:
            assert problem.code == "BUDGET_TOO_SMALL"  # noqa: PT017 -- most budgets raise nothing
            continue
        assert openai_faults(write_openai(left).messages) == []
        anthropic = write_anthropic(left)
        assert anthropic_faults(anthropic.messages, anthropic.system) == []
        assert tokens(left) <= budget.get("maxTokens", 10**9)
        assert len(left.items) <= budget.get("limit", 10**9)
        assert latest in [item.content for item in left.items]


@pytest.mark.parametrize("cut", [select, compress])
def test_nothing_goes_where_all_fits(cut: Any) -> None:
    """Without need nothing is cut, and the list is the one that was read."""
    assert write_openai(cut(context_of(*session(5)))).messages == session(5)


@pytest.mark.parametrize("request_", [{"maxTokens": 3}, {"limit": 1}])
@pytest.mark.parametrize("seed", [0, 3])
def test_the_least_budget_does_and_one_less_does_not(request_: dict[str, int], seed: int) -> None:
    """BUDGET_TOO_SMALL tells the least tokens and items; these do, and one less of either does not."""
    context = context_of(*session(seed))
    told = least(context, **request_)
    if "maxTokens" in request_:
        assert told["max_tokens"] == 3
        select(context, maxTokens=told["least_tokens"])
        assert least(context, maxTokens=told["least_tokens"] - 1)["least_tokens"] == told["least_tokens"]
    select(context, limit=told["least_items"])
    assert least(context, limit=told["least_items"] - 1)["least_items"] == told["least_items"]


def test_calls_without_a_result_are_kept_with_who_asked() -> None:
    """A pending call of an earlier turn stays, with its results and the user's message of its turn."""
    context = context_of(
        user("one"),
        says("x" * 400),
        user("two"),
        says("z" * 400),
        calling("a", "b"),
        answer("a"),
        user("three"),
        says("y" * 400),
        user("now"),
    )
    left = select(context, maxTokens=150)
    assert [item.content for item in left.items if isinstance(item.content, str)] == ["two", "found", "now"]
    assert write_openai(left).interrupted[0].call_id == "b"


def test_stand_ins_are_paid_for() -> None:
    """What an export says in the place of a missing result is within the budget."""
    context = context_of(user(), calling("a"))
    needed = least(context, maxTokens=1)["least_tokens"]
    assert needed > tokens(context)
    assert ids(select(context, maxTokens=needed)) == ids(context)


def test_the_latest_turn_loses_its_oldest_calls_first() -> None:
    """When the latest turn alone is too large, whole call groups go from its beginning, never its message."""
    rounds = [each for n in range(9) for each in (calling(f"c{n}"), answer(f"c{n}", "r" * 200))]
    context = context_of(user("first"), says("ok"), user("go"), *rounds)
    left = select(context, maxTokens=400)
    assert left.items[0].content == "go"
    assert ids(left)[1:] == ids(context)[-(len(left.items) - 1) :]
    assert 1 < len(left.items) < len(rounds)
    assert least(context, maxTokens=400, options={"latestTurn": "whole"})["least_items"] == len(rounds) + 1


def test_earlier_turns_stay_or_go_whole_by_score() -> None:
    """A turn that the query names is kept before newer ones, with all its calls and results."""
    turns = [
        each
        for n in range(6)
        for each in (user(f"topic{n}"), calling(f"c{n}"), answer(f"c{n}", "r" * 100), says(f"done{n}"))
    ]
    context = context_of(*turns, user("and?"))
    left = select(context, query="topic1", maxTokens=180)
    kept = [item.content for item in left.items]
    assert [kept[0], kept[3]] == ["topic1", "done1"]
    assert len(kept) % 4 == 1
    assert "topic2" not in kept


def test_protected_items_and_notes() -> None:
    """A protected item that is no message is kept; others compete by score."""
    notes = [
        {"id": "goal", "content": "g", "metadata": {"currentGoal": True}},
        {"id": "fact", "content": "f" * 900},
    ]
    wire = [item.wire_form() for item in context_of(user(), says("ok")).items]
    context = parse_context({"items": [*notes, *wire]})
    assert "goal" in ids(select(context, maxTokens=30))
    assert least(context, maxTokens=1)["least_items"] == 2  # the goal and the user's message
    assert "fact" not in ids(select(context, maxTokens=30))
    assert ids(select(parse_context({"items": notes}))) == ["goal", "fact"]


def test_orphan_results_are_never_selected() -> None:
    """A result whose call is not in the context goes, so that the list stays valid."""
    context = context_of(user(), calling("a"), answer("a"), says("ok"))
    torn = parse_context(
        {"items": [item.wire_form() for item in context.items if "tool_calls" not in str(item.content)]}
    )
    for left in (select(torn), compress(torn)):
        assert openai_faults(write_openai(left).messages) == []


def test_the_system_goes_only_where_it_may() -> None:
    """A system message that does not fit is BUDGET_TOO_SMALL, or dropped by the option."""
    context = context_of({"role": "system", "content": "s" * 4000}, user("hi"))
    assert least(context, maxTokens=500)["least_tokens"] > 1000
    assert [item.content for item in select(context, maxTokens=500, options={"system": "drop"}).items] == [
        "hi"
    ]


def test_compress_never_drops_the_system() -> None:
    """COMPRESS must keep what is protected: the option to drop the system's messages is SELECT's only."""
    context = context_of({"role": "system", "content": "s" * 4000}, user("hi"))
    assert refused(compress, context, maxTokens=500, strategy=strategy(system="drop")) == "BUDGET_TOO_SMALL"


@pytest.mark.parametrize("options", [{"system": "maybe"}, {"sytem": "drop"}])
def test_unknown_options_are_refused(options: dict[str, str]) -> None:
    """An option that the strategy does not have is INVALID_INPUT."""
    assert refused(select, context_of(user()), options=options) == "INVALID_INPUT"


def test_memory_gets_no_private_part_of_a_group() -> None:
    """For memory a private item goes with its whole call group."""
    wire: list[Any] = [
        item.wire_form() for item in context_of(user(), calling("a"), answer("a"), says("ok")).items
    ]
    wire[2] = {**wire[2], "metadata": {**wire[2]["metadata"], "private": True}}
    left = select(parse_context({"items": wire}), purpose="memory")
    assert [item.content for item in left.items] == ["hello", "ok"]


def test_an_injected_estimator_is_asked() -> None:
    """Budgets are in the injected estimator's tokens, stand-ins included."""

    class Words:
        def estimate(self, content: object, execution: ContextExecution) -> int:
            return len(str(content).split())

    nodes = ContextNodes(services=ContextServices(selector=ConversationSelector(), token_estimator=Words()))
    context = context_of(user("a b c d"), says("e f"), user("g h"))
    chosen = nodes.select(context=context, purpose="infer", max_tokens=7, strategy=strategy())
    assert [item.content for item in chosen.context.items] == ["g h"]


def test_workers_have_the_strategies_by_name() -> None:
    """What a worker opens serves SELECT and COMPRESS by the name; COMPRESS without it is the default's."""
    opened = open_context(default_settings({}), {})
    nodes = ContextNodes(policy=opened.policy, services=opened.services)
    context = context_of(user("x" * 400), says("ok"))
    chosen = nodes.select(context=context, purpose="infer", max_tokens=200, strategy=strategy())
    assert len(chosen.context.items) == 2
    assert refused(nodes.compress, context=context, max_tokens=50, strategy=strategy()) == "BUDGET_TOO_SMALL"
    assert len(nodes.compress(context=context, max_tokens=50).items) == 1
    unknown = {"kind": "provider", "name": "other"}
    assert refused(nodes.compress, context=context, strategy=unknown) == "STRATEGY_UNAVAILABLE"
    assert refused(nodes.select, context=context, purpose="infer", strategy=unknown) == "STRATEGY_UNAVAILABLE"


def test_an_extension_serves_other_names_and_may_override() -> None:
    """An extension's plain selector serves all other names; a named one wins over the built-in."""

    class Nothing:
        def select(self, request: SelectInput, execution: ContextExecution) -> list[Any]:
            return []

    def chosen(selector: object, name: str) -> int:
        opened = open_context(default_settings({}), {"selector": selector})
        nodes = ContextNodes(services=opened.services)
        asked = {"kind": "provider", "name": name}
        return len(nodes.select(context=context_of(user()), purpose="infer", strategy=asked).context.items)

    assert (chosen(Nothing(), "other"), chosen(Nothing(), "conversation")) == (0, 1)
    assert chosen(NamedSelectors({"conversation": Nothing()}), "conversation") == 0
    assert NamedCompressors({}, None).find(None) is None
