"""Reasons, turns and orders in receipts, and the edges of what conversations and compressors may do."""

from __future__ import annotations

from typing import Any

import pytest
from support.contexts import context, ids, item, refused

from ditto_tasks.context import (
    CompressInput,
    Context,
    ContextNodes,
    ContextSelection,
    ContextServices,
    parse_context,
)
from ditto_tasks.context.base import ContextExecution
from ditto_tasks.context.conversations import ConversationCompressor, ConversationSelector, read_openai
from ditto_tasks.context.conversations.marks import CONTINUED
from ditto_tasks.context.receipts import ReceiptEntry, SelectionReceipt
from ditto_tasks.context.replay import confirm
from ditto_tasks.json_values import encode
from ditto_tasks.models import to_wire

SELECT, COMPRESS = "CONTEXT.SELECT", "CONTEXT.COMPRESS"
SERVICES = ContextServices(selector=ConversationSelector(), compressor=ConversationCompressor())
NODES = ContextNodes(services=SERVICES)
CONVERSATION = {"kind": "provider", "name": "conversation"}
NOT_A_NUMBER = {"priority": 1e308, "relevance": -1e308}  # infinity less infinity


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def says(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def calling(*call_ids: str) -> dict[str, Any]:
    function = {"name": "find", "arguments": "{}"}
    calls = [{"id": each, "type": "function", "function": function} for each in call_ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def answer(call_id: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def context_of(*messages: dict[str, Any]) -> Context:
    return NODES.load(sources=read_openai(list(messages)))


def with_metadata(given: Context, content: str, **metadata: Any) -> Context:
    """The same context, with more metadata at the item of this content."""
    wire: list[Any] = [each.wire_form() for each in given.items]
    for each in wire:
        if each["content"] == content:
            each["metadata"] = {**each["metadata"], **metadata}
    return parse_context({"items": wire})


def receipt_of(given: Context, **request: Any) -> SelectionReceipt:
    asked = {"context": given, "purpose": "infer", "strategy": CONVERSATION, **request}
    return NODES.explain(SELECT, asked).receipt


def told(given: Context, **request: Any) -> dict[object, ReceiptEntry]:
    """The entries by their items' contents."""
    contents = {each.id: each.content for each in given.items}
    entries = receipt_of(given, **request).entries
    return {contents[each.id]: each for each in entries if isinstance(contents[each.id], str)}


def chosen(given: Context, **request: Any) -> list[object]:
    asked = {"context": given, "purpose": "infer", "strategy": CONVERSATION, **request}
    result = NODES.execute(SELECT, asked)
    assert isinstance(result, ContextSelection)
    return [each.content for each in result.context.items]


def test_reasons_of_a_pending_call() -> None:
    """Who asked for it is kept for that reason, with the number of the turn; other turns have no room."""
    given = context_of(
        *(user("one"), says("x" * 400), user("two"), calling("a", "b"), answer("a", "found")),
        *(user("three"), says("y" * 400), user("now")),
    )
    entries = told(given, maxTokens=150)
    assert (entries["two"].reason, entries["two"].turn) == ("asked for a call without a result", 2)
    assert (entries["found"].reason, entries["found"].turn) == ("call without a result", 2)
    assert (entries["now"].reason, entries["now"].turn) == ("latest user turn", 4)
    assert (entries["y" * 400].verdict, entries["y" * 400].reason) == ("dropped", "no room")


def test_reasons_where_the_latest_turn_is_cut() -> None:
    """Earlier turns go for its sake, and that is what is said of them and of its own oldest calls."""
    rounds = [each for n in range(9) for each in (calling(f"c{n}"), answer(f"c{n}", f"r{n}" * 100))]
    entries = told(context_of(user("first"), says("ok"), user("go"), *rounds), maxTokens=400)
    cut = "no room: the latest turn is cut"
    assert {entries[content].reason for content in ("first", "ok", "r0" * 100)} == {cut}
    assert entries["r8" * 100].reason == "latest turn"


def test_reasons_of_what_must_stay() -> None:
    """The system's, what is protected, and the last message where no user has spoken."""
    given = context_of({"role": "system", "content": "rules"}, user("keep"), says("ok"), user("now"))
    entries = told(with_metadata(given, "keep", protected=True))
    assert (entries["rules"].reason, entries["keep"].reason) == ("system", "protected")
    alone = context_of(says("first"), says("last"))
    assert told(alone, limit=1)["last"].reason == "latest message"
    assert refused(receipt_of, alone, maxTokens=1) == "BUDGET_TOO_SMALL"


def test_one_protected_result_keeps_its_call_and_all_its_results() -> None:
    """Whichever of them it is."""
    turn = (user("old"), calling("a", "b"), answer("a", "ra"), answer("b", "rb"))
    entries = told(with_metadata(context_of(*turn, user("now")), "ra", protected=True), limit=4)
    assert {entries[content].reason for content in ("ra", "rb")} == {"protected"}
    assert entries["old"].verdict == "dropped"


def test_what_may_not_be_remembered_was_skipped() -> None:
    """It competed for no room: the receipt says skipped, not dropped."""
    given = with_metadata(context_of(user("open"), says("secret")), "secret", private=True)
    entry = told(given, purpose="memory")["secret"]
    assert (entry.verdict, entry.reason) == ("skipped", "not eligible for memory")


def test_entries_stand_in_the_order_in_which_tokens_were_spent() -> None:
    """A result that came late stands behind what was said meanwhile, though it stays with its call."""
    given = context_of(user("one"), calling("a"), user("meanwhile"), answer("a", "late"))
    used = [entry.used for entry in receipt_of(given, maxTokens=900).entries]
    assert used == sorted(each or 0 for each in used)
    assert len(set(used)) == len(given.items)


def test_scores_that_are_not_a_number_are_left_out() -> None:
    """Of SELECT as of COMPRESS; one such member makes its whole group's score none."""
    odd = context(item("c1", callId="k", priority=9), item("c2", callId="k", **NOT_A_NUMBER), item("x"))
    selected = ContextNodes().explain(SELECT, {"context": odd, "purpose": "infer"}).receipt
    assert {each.id: each.score is None for each in selected.entries} == {"c1": False, "c2": True, "x": False}
    compressed = ContextNodes().explain(COMPRESS, {"context": odd, "maxItems": 2})
    none = {each.id for each in compressed.receipt.entries if each.score is None}
    assert none == {"c1", "c2"}
    assert [each.id for each in compressed.result.items] == ["x"]  # type: ignore[union-attr]  # a context
    assert encode(to_wire(selected))
    assert encode(to_wire(compressed.receipt))


@pytest.mark.parametrize(
    ("request_", "other"),
    [
        ({"query": "one"}, {"query": "two"}),
        ({"strategy": CONVERSATION}, {"strategy": {**CONVERSATION, "options": {"latestTurn": "whole"}}}),
        ({"limit": 5}, {"limit": 6}),
    ],
)
def test_a_receipt_is_of_one_request_though_another_ends_alike(
    request_: dict[str, Any], other: dict[str, Any]
) -> None:
    """The same items with the same scores for another question are no confirmation."""
    given = context_of(user("hello"))
    asked = {"purpose": "infer", **request_}
    receipt = NODES.explain(SELECT, {**asked, "context": given}).receipt
    assert confirm(receipt, given, asked)
    assert refused(confirm, receipt, given, {**asked, **other}) == "RECEIPT_MISMATCH"


def test_a_receipt_has_the_ceilings_of_its_policy() -> None:
    """Those that were given; a run without them would come out otherwise."""
    given, asked = context(item("a", "x" * 100), item("b", "y" * 100)), {"purpose": "infer"}
    nodes = ContextNodes(policy={"maxTokens": 30, "maxItems": 9, "maxInlineBytes": 500})
    explained = nodes.explain(SELECT, {**asked, "context": given})
    assert explained.receipt.policy == {"maxTokens": 30, "maxItems": 9, "maxInlineBytes": 500}
    assert explained.receipt.items == 1
    assert confirm(explained.receipt, given, asked) == explained.result


def test_a_receipt_names_its_strategy() -> None:
    """Built-in ones by their own name, a foreign one as its provider's."""

    class Mine:
        def select(self, request: object, execution: ContextExecution) -> list[Any]:
            return []

    given = context_of(user("hello"))
    foreign = ContextNodes(services=ContextServices(selector=Mine()))
    asked = {"context": given, "purpose": "infer"}
    named = {**asked, "strategy": {"kind": "provider", "name": "mine"}}
    assert foreign.explain(SELECT, named).receipt.strategy == "provider:mine"
    assert foreign.explain(SELECT, asked).receipt.strategy == "default"
    assert receipt_of(given).strategy == "conversation"


def test_the_message_in_front_of_an_assistants_is_paid_for() -> None:
    """A conversation that begins with the assistant costs what an export puts in front of it."""
    given = context_of(says("before"), user("hello"))
    own = sum(-(-each.inline_bytes // 4) for each in given.items)
    extra = -(-len(encode(CONTINUED)) // 4)
    assert chosen(given, maxTokens=own + extra) == ["before", "hello"]
    assert chosen(given, maxTokens=own + extra - 1) == ["hello"]


def test_user_messages_in_a_row_are_one_turn() -> None:
    """All of them are the latest turn's, and must stay."""
    given = context_of(user("old"), says("ok"), user("now"), user("and this"))
    assert refused(chosen, given, limit=1) == "BUDGET_TOO_SMALL"
    assert chosen(given, limit=2) == ["now", "and this"]


def test_the_best_member_speaks_for_a_call_group() -> None:
    """A result of high priority keeps its turn before a newer one."""
    turns = [each for n in (1, 2) for each in (user(f"u{n}"), calling(f"c{n}"), answer(f"c{n}", f"r{n}"))]
    given = with_metadata(context_of(*turns, user("now")), "r1", priority=5)
    assert [each for each in chosen(given, limit=4) if isinstance(each, str)] == ["u1", "r1", "now"]


def test_compress_leaves_the_order_of_the_context() -> None:
    """Which need not be the conversation's."""
    given = context_of(user("one"), says("two"), user("three"))
    turned = parse_context({"items": [each.wire_form() for each in reversed(given.items)]})
    assert ids(NODES.compress(context=turned)) == ids(turned)


class Keeps:
    """A compressor of an application that keeps everything, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: CompressInput | None = None

    def compress(self, request: CompressInput, execution: ContextExecution) -> Context:
        self.asked = request
        assert request.context is not None
        return request.context


def test_a_compressor_is_asked_with_the_ceilings_and_its_strategy() -> None:
    """The policy's budget though the request has none, and the options that it was named with."""
    keeps = Keeps()
    nodes = ContextNodes(policy={"maxTokens": 9}, services=ContextServices(compressor=keeps))
    strategy = {"kind": "provider", "name": "mine", "options": {"a": 1}}
    nodes.compress({"context": context(item("a")), "strategy": strategy})
    assert keeps.asked is not None
    assert keeps.asked.max_tokens == 9
    assert keeps.asked.strategy is not None
    assert keeps.asked.strategy.options == {"a": 1}


def test_one_token_over_the_budget_is_too_many() -> None:
    """A compressor's answer has to keep the budget exactly."""
    nodes = ContextNodes(services=ContextServices(compressor=Keeps()))
    given = context(item("a", "x" * 6))  # 8 bytes as JSON
    assert ids(nodes.compress(context=given, max_tokens=2)) == ["a"]
    assert refused(nodes.compress, context=given, max_tokens=1) == "INVALID_PROVIDER_OUTPUT"
