"""Provider lists as contexts, and contexts as provider lists."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.contexts import refused
from support.conversations import in_parallel, session
from support.provider_rules import anthropic_faults, openai_faults

from ditto_tasks.context import Context, ContextNodes, parse_context
from ditto_tasks.context.conversations import (
    ProviderMessages,
    read_anthropic,
    read_openai,
    write_anthropic,
    write_openai,
)
from ditto_tasks.context.conversations.marks import CONTINUED, EMPTY, INTERRUPTED
from ditto_tasks.errors import ContextError
from ditto_tasks.json_values import decode, encode
from ditto_tasks.models import to_wire

NODES = ContextNodes()
PNG = "data:image/png;base64,iVBORw0KGgo="


def of_openai(*messages: dict[str, Any]) -> Context:
    return NODES.load(sources=read_openai(list(messages)))


def of_anthropic(*messages: dict[str, Any], system: object = None) -> Context:
    return NODES.load(sources=read_anthropic(list(messages), system=system))


def call(call_id: str, name: str = "find", arguments: str = '{"a": 1}') -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def calling(*calls: dict[str, Any], content: str | None = None) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def answer(call_id: str, content: str = "found") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def user(text: object = "hello") -> dict[str, Any]:
    return {"role": "user", "content": text}


def use(call_id: str, name: str = "find") -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {"a": 1}}


def result(call_id: str, content: object = "found") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


def assert_accepted(context: Context) -> tuple[ProviderMessages, ProviderMessages]:
    """Both providers accept what is written of the context."""
    openai, anthropic = write_openai(context), write_anthropic(context)
    assert openai_faults(openai.messages) == []
    assert anthropic_faults(anthropic.messages, anthropic.system) == []
    return openai, anthropic


@pytest.mark.parametrize("seed", range(12))
def test_openai_lists_come_back_equal(seed: int) -> None:
    """An OpenAI list with repeated ids and null contents is equal after a context that was stored."""
    messages = session(seed)
    stored = parse_context(decode(encode(to_wire(of_openai(*messages)))))
    assert write_openai(stored).messages == messages
    assert write_openai(stored).renames == ()
    assert_accepted(stored)


@pytest.mark.parametrize("seed", range(12))
def test_parallel_calls_come_back_equal(seed: int) -> None:
    """With parallel calls the list is equal but for ids that clash in one message, which are told."""
    messages = in_parallel(session(seed))
    back = assert_accepted(of_openai(*messages))[0]
    old = {rename.new: rename.old for rename in back.renames}
    text = json.dumps(back.messages)
    for new, was in old.items():
        text = text.replace(json.dumps(new), json.dumps(was))
    assert json.loads(text) == messages


@pytest.mark.parametrize("seed", range(12))
def test_anthropic_lists_come_back_equal(seed: int) -> None:
    """An Anthropic list is equal after a context that was stored."""
    first = write_anthropic(of_openai(*in_parallel(session(seed))))
    stored = parse_context(decode(encode(to_wire(of_anthropic(*first.messages, system=first.system)))))
    again = assert_accepted(stored)[1]
    assert (again.messages, again.system) == (first.messages, first.system)


def test_nothing_of_an_openai_message_is_lost() -> None:
    """Names, developer messages, parts of unknown type, refusals and unknown fields are equal afterwards."""
    messages = [
        {"role": "developer", "content": "be brief", "name": "ops"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "see"}, {"type": "hologram", "x": [1.0, None]}],
        },
        {"role": "assistant", "refusal": "no", "annotations": []},
        {"role": "user", "name": "Ann", "content": [{"type": "image_url", "image_url": {"url": PNG}}]},
        {
            **calling(call("c"), {"id": "d", "type": "custom", "custom": {"name": "sh", "input": "ls"}}),
            "x": 1,
        },
        {**answer("d"), "name": "sh"},
        answer("c", ""),
        {"role": "assistant", "content": None, "refusal": "no more"},
    ]
    assert write_openai(of_openai(*messages)).messages == messages


def test_nothing_of_an_anthropic_message_is_lost() -> None:
    """Thinking, server tools, images, cache marks and text beside results are equal afterwards."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0="}}
    messages = [
        user([{"type": "text", "text": "see", "cache_control": {"type": "ephemeral"}}, image]),
        user("and this"),
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s=="},
                {"type": "redacted_thinking", "data": "x"},
                {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {}},
                {"type": "web_search_tool_result", "tool_use_id": "srv", "content": []},
                use("t1"),
                {"type": "text", "text": "and"},
                use("t2"),
            ],
        },
        user(
            [result("t2", [{"type": "text", "text": "b"}, image]), {**result("t1"), "is_error": True}, image]
        ),
        {"role": "assistant", "content": "done"},
    ]
    system = [{"type": "text", "text": "rules", "cache_control": {"type": "ephemeral"}}]
    again = write_anthropic(of_anthropic(*messages, system=system))
    assert (again.messages, again.system) == (messages, system)
    assert anthropic_faults(again.messages, again.system) == []


def test_call_groups_are_kept_apart_by_position() -> None:
    """Calls with one id in one session are groups of their own, each with its own results."""
    context = of_openai(user(), calling(call("c")), answer("c", "1"), calling(call("c")), answer("c", "2"))
    groups = [(item.metadata or {})["callId"] for item in context.items[1:]]
    assert groups[0] == groups[1] != groups[2] == groups[3]


def test_a_result_answers_the_newest_call_that_waits() -> None:
    """Where a call with the same id was interrupted before, the result belongs to the later one."""
    context = of_openai(user(), calling(call("c")), user(), calling(call("c")), answer("c", "mine"))
    openai = assert_accepted(context)[0]
    assert [each["content"] for each in openai.messages if each["role"] == "tool"] == [INTERRUPTED, "mine"]


def test_ids_that_clash_are_renamed_alike_every_time() -> None:
    """Anthropic's list has ids of its own for repeated and for malformed ones, and tells which."""
    messages = [
        user(),
        calling(call("a b")),
        answer("a b"),
        calling(call("c"), call("c")),
        answer("c"),
        answer("c", "2"),
    ]
    context = of_openai(*messages)
    first, again = assert_accepted(context)[1], write_anthropic(context)
    assert first == again
    assert [(each.old, each.new) for each in first.renames] == [("a b", "a_b"), ("c", "c-2")]
    assert [block["content"] for block in first.messages[4]["content"]] == ["found", "2"]  # type: ignore[index,call-overload,union-attr]  # any JSON


def test_names_that_a_provider_refuses_are_renamed() -> None:
    """A tool's or author's name with other characters is written with those that are allowed."""
    context = of_openai({**user(), "name": "Ann Lee"}, calling(call("c" * 50, "find it!")), answer("c" * 50))
    assert {each.kind for each in assert_accepted(context)[0].renames} == {"name", "call", "tool"}


def test_a_result_without_its_call_is_refused_by_name() -> None:
    """An orphan result is CONVERSATION_INVALID with its item's id, or left out if asked so."""
    context = of_openai(user(), answer("gone"), {"role": "assistant", "content": "ok"})
    for write in (write_openai, write_anthropic):
        with pytest.raises(ContextError) as caught:
            write(context)
        assert caught.value.code == "CONVERSATION_INVALID"
        assert caught.value.details == {"item_id": context.items[1].id}
        assert len(write(context, orphans="drop").messages) == 2


def test_interrupted_calls_get_a_marked_result() -> None:
    """A call without a result is answered by a stand-in that is told; reading the list again drops it."""
    context = of_openai(user(), calling(call("a"), call("b")), answer("b"), user("next"))
    openai, anthropic = assert_accepted(context)
    assert openai.messages[3] == {"role": "tool", "tool_call_id": "a", "content": INTERRUPTED}
    assert (
        [each.call_id for each in openai.interrupted]
        == ["a"]
        == [each.call_id for each in anthropic.interrupted]
    )
    assert of_openai(*openai.messages) == context
    again = of_anthropic(*anthropic.messages)
    assert write_anthropic(again).messages == anthropic.messages


@pytest.mark.parametrize("read", [read_openai, read_anthropic])
def test_the_real_result_takes_the_place_of_the_stand_in(read: Any) -> None:
    """A result that comes late is read after its conversation and stands right behind its call."""
    context = of_openai(user(), calling(call("a")), user("well?"))
    late = [answer("a", "here")] if read is read_openai else [user([result("a", "here")])]
    context = NODES.update(context=context, add=read(late, after=context))
    openai, anthropic = assert_accepted(context)
    assert openai.messages[2]["content"] == "here"
    assert openai.interrupted == () == anthropic.interrupted


def test_a_conversation_that_goes_on_keeps_its_order() -> None:
    """Messages read after a context take places behind it, and an export follows places, not scores."""
    context = of_openai(*session(1))
    more = [user("more"), {"role": "assistant", "content": "yes"}]
    longer = NODES.update(context=context, add=read_openai(more, after=context))
    assert write_openai(longer).messages == [*session(1), *more]
    shuffled = parse_context({"items": [item.wire_form() for item in reversed(longer.items)]})
    assert write_openai(shuffled).messages == [*session(1), *more]


def test_no_empty_block_reaches_a_provider() -> None:
    """Blank texts are left out; a user's message with nothing else, and a missing first one, are marked."""
    context = of_openai(
        {"role": "assistant", "content": "hello"},
        user(""),
        {"role": "assistant", "content": " "},
        user([{"type": "text", "text": ""}, {"type": "text", "text": "x"}]),
        {"role": "assistant", "content": "end \n"},
    )
    openai, anthropic = assert_accepted(context)
    assert anthropic.messages[0]["content"] == CONTINUED
    assert anthropic.messages[2]["content"] == [
        {"type": "text", "text": EMPTY},
        {"type": "text", "text": "x"},
    ]
    assert anthropic.messages[-1]["content"] == "end"
    assert openai.messages[3]["content"] == [{"type": "text", "text": "x"}]


def test_only_system_messages_are_no_conversation() -> None:
    """A context without any message beside the system's is refused."""
    context = of_openai({"role": "system", "content": "rules"})
    assert refused(write_openai, context) == refused(write_anthropic, context) == "CONVERSATION_INVALID"


def test_notes_are_refused_dropped_or_said_by_the_user() -> None:
    """An item that is no message is refused by its id, unless the caller says what it is."""
    wire = [item.wire_form() for item in of_openai(user()).items]
    context = parse_context({"items": [*wire, {"id": "fact", "content": "the sky is blue"}]})
    assert refused(write_openai, context) == "CONVERSATION_INVALID"
    assert len(write_openai(context, notes="drop").messages) == 1
    assert write_openai(context, notes="user").messages[1] == user("the sky is blue")


def test_images_and_documents_cross_over() -> None:
    """Pictures and PDF files are in each provider's own form; what has none is refused by name."""
    pdf = {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0="}}
    context = of_openai(user([{"type": "image_url", "image_url": {"url": PNG}}, pdf]))
    anthropic = assert_accepted(context)[1]
    back = write_openai(of_anthropic(*anthropic.messages)).messages[0]["content"]
    assert isinstance(back, list)
    assert back[0] == {"type": "image_url", "image_url": {"url": PNG}}
    assert {"type": "file", "file": {"filename": "document.pdf", **pdf["file"]}} == back[1]  # type: ignore[dict-item]  # any JSON
    audio = of_openai(user([{"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}}]))
    assert refused(write_anthropic, audio) == "CONVERSATION_INVALID"


@pytest.mark.parametrize("arguments", ["", "{", "[1]", "null", '{"é": "\\ud800"}'])
def test_arguments_that_are_no_object_reach_anthropic(arguments: str) -> None:
    """What a model wrote as arguments is an object for Anthropic, whatever it was."""
    assert_accepted(of_openai(user(), calling(call("c", arguments=arguments)), answer("c")))


@pytest.mark.parametrize(
    ("messages", "path"),
    [
        ("no list", "/messages"),
        ([1], "/messages/0"),
        ([{"role": "robot", "content": "x"}], "/messages/0/role"),
        ([{"role": "tool", "content": "x"}], "/messages/0/tool_call_id"),
        ([{"role": "user", "content": float("nan")}], "/messages/0/content"),
    ],
)
def test_what_is_no_message_is_refused_with_its_path(messages: object, path: str) -> None:
    """Reading refuses what is no message with INVALID_INPUT and the path."""
    with pytest.raises(ContextError) as caught:
        read_openai(messages)
    assert caught.value.details == {"path": path}
