"""INTERACTION nodes in process: the order of ACT.TOOL, bad tools, observations, deliveries."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from ditto_tasks.errors import Cancelled, DittoError, InteractionError, NodeInputError
from ditto_tasks.interaction.base import (
    ActionCall,
    EffectUnknownError,
    InteractionCall,
    Tool,
    ToolError,
    ToolOutput,
)
from ditto_tasks.interaction.bounded import BoundedRunner
from ditto_tasks.interaction.models import OutputInput
from ditto_tasks.interaction.nodes import InteractionNodes
from ditto_tasks.interaction.permissions import Permissions
from ditto_tasks.interaction.registry import ToolRegistry
from ditto_tasks.interaction.values import ExternalError, ExternalResult, OutputReceipt
from ditto_tasks.json_values import JsonObject, JsonValue
from ditto_tasks.models import CancelToken, to_wire

SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}, "additionalProperties": False}
CALL = {"call": {"id": "c1", "name": "t", "arguments": {}}}


def nodes(run: Callable[..., object] = lambda *_: "ok", **fields: object) -> InteractionNodes:
    registry = ToolRegistry()
    given = {"name": "t", "description": "", "input_schema": SCHEMA, "run": run} | fields
    registry.register(Tool(**given))  # type: ignore[arg-type]  # fields of a Tool
    allowed = Permissions(tools=frozenset({"t"}), read=True, network=frozenset({"brave"}))
    return InteractionNodes(registry, permissions=allowed, timeout_ms=10_000)


def act(run: Callable[..., object], call: JsonObject | None = None, **fields: object) -> JsonObject:
    wire = to_wire(nodes(run, **fields).act_tool(call or CALL))
    assert isinstance(wire, dict)
    return wire


def failing(error: BaseException) -> Callable[..., object]:
    def run(*_: object) -> object:
        raise error

    return run


def test_text_is_content() -> None:
    """A tool's text becomes content; call id and source are set by the core."""
    assert act(lambda *_: "ok") == {"callId": "c1", "source": "t", "status": "success", "content": "ok"}


def test_object_is_structured_content() -> None:
    """A tool's object becomes structured content."""
    assert act(lambda *_: {"n": 1})["structuredContent"] == {"n": 1}


def test_full_output() -> None:
    """A tool can give parts, references and metadata."""
    full = ToolOutput(content=[{"type": "text", "text": "x"}], references=[{"uri": "u"}], metadata={"m": 1})
    wire = act(lambda *_: full)
    assert (wire["content"], wire["references"], wire["metadata"]) == (
        [{"type": "text", "text": "x"}],
        [{"uri": "u"}],
        {"m": 1},
    )


@pytest.mark.parametrize(
    ("run", "status", "code"),
    [
        (failing(RuntimeError("canary")), "failed", "TOOL_FAILED"),
        (failing(SystemExit()), "failed", "TOOL_FAILED"),
        (failing(ToolError("NO_ROOM", "no room", retryable=True)), "failed", "NO_ROOM"),
        (failing(ToolError("weird code!", "a\nb" * 600)), "failed", "weird_code_"),
        (failing(ToolError("LOST", "lost", status="unknown")), "unknown", "LOST"),
        (lambda *_: None, "failed", "INVALID_TOOL_OUTPUT"),
        (lambda *_: 3, "failed", "INVALID_TOOL_OUTPUT"),
        (lambda *_: {"n": float("nan")}, "failed", "INVALID_TOOL_OUTPUT"),
        (lambda *_: {1: 2}, "failed", "INVALID_TOOL_OUTPUT"),
        (lambda *_: {"o": object()}, "failed", "INVALID_TOOL_OUTPUT"),
        (lambda *_: ToolOutput(), "failed", "INVALID_TOOL_OUTPUT"),
        (lambda *_: ToolOutput(content=[float("inf")]), "failed", "INVALID_TOOL_OUTPUT"),
        (lambda *_: ToolOutput(references=[{"no": "uri"}]), "failed", "INVALID_TOOL_OUTPUT"),
        (lambda *_: "x" * 50_000_000, "failed", "TOOL_OUTPUT_TOO_LARGE"),
    ],
)
def test_bad_tools(run: Callable[..., object], status: str, code: str) -> None:
    """Whatever a tool does, the result is typed, its error is safe to show, and no raw text leaks."""
    wire = act(run)
    assert (wire["status"], wire["error"]["code"]) == (status, code)
    assert len(wire["error"]["message"]) <= 512
    assert "canary" not in str(wire)
    assert "content" not in wire


def _loop() -> dict[str, object]:
    endless: dict[str, object] = {}
    endless["self"] = endless
    return endless


def test_endless_output() -> None:
    """A tool's output that holds itself has no end, so it is too large."""
    assert act(lambda *_: _loop())["error"]["code"] == "TOOL_OUTPUT_TOO_LARGE"


def test_a_huge_output_is_not_read_to_its_end() -> None:
    """What is surely too large is refused before each of its values is checked."""
    begun_s = time.process_time()  # of this process, whatever else the machine does
    assert act(lambda *_: {"rows": [{}] * 30_000_000})["error"]["code"] == "TOOL_OUTPUT_TOO_LARGE"
    assert time.process_time() - begun_s < 5


@pytest.fixture
def hold() -> Iterator[threading.Event]:
    """Lets a hanging tool go when its test ends."""
    event = threading.Event()
    yield event
    event.set()


def test_hanging_tool_times_out(hold: threading.Event) -> None:
    """A tool that hangs is left behind at its timeout, with a timeout result."""
    wire = act(lambda *_: hold.wait(60), timeout_ms=50)
    assert (wire["status"], wire["error"]["code"]) == ("timeout", "TIMEOUT")


def test_cancelled_tool(hold: threading.Event) -> None:
    """A cancelled call ends as cancelled although its tool goes on."""
    token = CancelToken()

    def run(*_: object) -> object:
        token.cancel()
        return hold.wait(60)

    result = nodes(run).act_tool(CALL, call=InteractionCall(token=token))
    assert (result.status, result.error and result.error.code) == ("cancelled", "CANCELLED")


def test_call_timeout_wins(hold: threading.Event) -> None:
    """The call's own timeout wins over the tool's."""
    slow = nodes(lambda *_: hold.wait(60), timeout_ms=60_000)
    assert slow.act_tool(CALL, call=InteractionCall(timeout_ms=50)).status == "timeout"


def test_too_many_hanging_tools(hold: threading.Event) -> None:
    """Once too many actions hang, further ones are refused instead of piling up."""
    runner = BoundedRunner(max_running=1)
    times = iter([0.0, 9.0])
    late = ActionCall(call_id="c", token=CancelToken(), deadline_s=1.0, now=lambda: next(times, 9.0))
    with pytest.raises(ToolError, match="TIMEOUT"):
        runner.run(
            lambda: hold.wait(60), ActionCall(call_id="c", token=late.token, deadline_s=0, now=late.now)
        )
    with pytest.raises(ToolError, match="TOOL_UNAVAILABLE"):
        runner.run(lambda: None, late)


@pytest.mark.parametrize(
    ("arguments", "path"),
    [({"q": 1}, "/q"), ({"x": 1}, "/"), ({"q": None}, "/q")],
)
def test_bad_arguments(arguments: JsonObject, path: str) -> None:
    """Arguments that don't fit the schema are a failed result with the path, and the tool is not run."""
    ran: list[object] = []
    wire = act(lambda *_: ran.append(1), {"call": {"id": "c", "name": "t", "arguments": arguments}})
    assert (wire["status"], wire["error"]["code"]) == ("failed", "INVALID_ARGUMENTS")
    assert wire["error"]["message"].startswith(f"{path}: ")
    assert ran == []


def test_endless_schema() -> None:
    """A schema without end, or one that points elsewhere, refuses arguments and fetches nothing."""
    for ref in ("#", "https://127.0.0.1:1/schema.json"):
        schema = {"allOf": [{"$ref": ref}]}
        wire = act(lambda *_: "ok", input_schema=schema)
        assert wire["error"]["code"] == "INVALID_ARGUMENTS"


@pytest.mark.parametrize(
    "given",
    [
        None,
        {},
        {"call": {}},
        {"call": {"id": "", "name": "t", "arguments": {}}},
        {"call": {"id": "c", "name": "t", "arguments": []}},
        {"call": {"id": "c", "name": "t", "arguments": {"x": float("nan")}}},
        {**CALL, "extra": 1},
    ],
)
def test_bad_input_raises(given: object) -> None:
    """A bad node input raises INVALID_INPUT."""
    with pytest.raises(NodeInputError, match="INVALID_INPUT"):
        nodes().act_tool(given)  # type: ignore[arg-type]  # bad on purpose


def refusal(given: InteractionNodes, name: str = "t") -> str:
    with pytest.raises(InteractionError) as caught:
        given.act_tool({"call": {"id": "c", "name": name, "arguments": {"x": 1}}})
    return caught.value.code


def test_order_of_refusals() -> None:
    """Permission comes before registration, and both before the arguments."""
    assert refusal(InteractionNodes()) == "PERMISSION_DENIED"
    assert refusal(InteractionNodes(permissions=Permissions(tools=frozenset({"t"})))) == "UNKNOWN_TOOL"
    assert refusal(nodes(needs=frozenset({"write"}))) == "PERMISSION_DENIED"
    assert refusal(nodes(), "other") == "PERMISSION_DENIED"


@pytest.mark.parametrize(
    ("needs", "allowed"),
    [
        ((), True),
        (("read",), True),
        (("write",), False),
        (("execute",), False),
        (("network:brave",), True),
        (("network:other",), False),
        (("read", "write"), False),
        (("anything",), False),
    ],
)
def test_needs_of_a_tool(needs: tuple[str, ...], allowed: bool) -> None:
    """A tool runs only if each of its needs is permitted; an unknown need never is."""
    given = nodes(needs=frozenset(needs))
    if allowed:
        assert given.act_tool(CALL).status == "success"
    else:
        with pytest.raises(InteractionError, match="PERMISSION_DENIED"):
            given.act_tool(CALL)


def test_registry() -> None:
    """Names are bounded and unique; what registers returns what unregisters, once and only its own tool."""
    registry = ToolRegistry()
    tool = Tool(name="t", description="", input_schema=SCHEMA, run=lambda *_: "")
    remove = registry.register(tool)
    with pytest.raises(InteractionError, match="DUPLICATE_TOOL"):
        registry.register(tool)
    remove()
    registry.register(tool)
    remove()
    assert registry.find("t").tool is tool
    for name in ("", "a b", "x" * 65, "é", "a\n"):
        with pytest.raises(InteractionError, match="INVALID_TOOL"):
            registry.register(Tool(name=name, description="", input_schema={}, run=lambda *_: ""))
    with pytest.raises(InteractionError, match="INVALID_TOOL"):
        registry.register(Tool(name="s", description="", input_schema={"type": 1}, run=lambda *_: ""))


def test_effects_are_recorded_unless_read_only() -> None:
    """A tool's effect goes through the ledger with its name and arguments; a read-only tool's does not."""
    seen: list[JsonValue] = []

    def once(inputs: JsonValue, effect: Callable[[], JsonValue], admit: Callable[[], None]) -> JsonValue:
        seen.append(inputs)
        admit()
        return effect()

    call = InteractionCall(once=once)
    assert nodes().act_tool(CALL, call=call).status == "success"
    assert nodes(read_only=True).act_tool(CALL, call=call).status == "success"
    assert seen == [{"source": "t", "arguments": {}}]


def test_unknown_effect_is_a_result() -> None:
    """An effect of unknown outcome is a result with status unknown."""

    def once(*_: object) -> JsonValue:
        raise EffectUnknownError("OUTCOME_UNKNOWN", "nobody knows")

    result = nodes().act_tool(CALL, call=InteractionCall(once=once))
    assert (result.status, result.error and result.error.code) == ("unknown", "OUTCOME_UNKNOWN")


FAILED = ExternalResult(
    call_id="c", source="t", status="failed", error=ExternalError(code="NOPE", message="no room")
)


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("text", "text"),
        ([{"type": "text", "text": "one"}], "one"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], None),
        ([{"type": "image"}], None),
        ([], None),
    ],
)
def test_observation_of_content(content: JsonValue, shown: str | None) -> None:
    """A single text part becomes a string, other content stays as it is."""
    result = {"callId": "c", "source": "t", "status": "success", "content": content}
    wire = to_wire(InteractionNodes().observe({"result": result}))
    assert isinstance(wire, dict)
    assert wire["message"] == {"role": "tool", "name": "t", "content": content if shown is None else shown}


def test_observation_of_other_successes() -> None:
    """Without content the structured content is shown, else the references; both stay beside the message."""
    base = {"callId": "c", "source": "t", "status": "success"}
    structured = InteractionNodes().observe({"result": {**base, "structuredContent": {"k": 1}}})
    assert structured.message.content == structured.structured_content == {"k": 1}
    references = InteractionNodes().observe({"result": {**base, "references": [{"uri": "u"}]}})
    assert references.message.content == [{"uri": "u"}]


def test_failure_is_never_promoted() -> None:
    """A failure keeps its status and error, and its message is the safe summary, whatever content it has."""
    seen = InteractionNodes().observe({"result": FAILED.model_copy(update={"content": "all is well"})})
    assert (seen.status, seen.error) == ("failed", FAILED.error)
    assert seen.message.content == "failed: NOPE: no room"


@pytest.mark.parametrize(
    "result",
    [
        {"callId": "c", "source": "t", "status": "success"},
        {"callId": "c", "source": "t", "status": "failed"},
        {
            "callId": "c",
            "source": "t",
            "status": "success",
            "content": "x",
            "error": {"code": "C", "message": ""},
        },
        {"callId": "c", "source": "t", "status": "failed", "error": {"code": "a b", "message": ""}},
        {"callId": "c", "source": "t", "status": "failed", "error": {"code": "C" * 65, "message": ""}},
        {"callId": "c", "source": "t", "status": "failed", "error": {"code": "C", "message": "x" * 513}},
        {"callId": "c", "source": "t", "status": "failed", "error": {"code": "C", "message": "a\x1b[0m"}},
        {"callId": "", "source": "t", "status": "success", "content": "x"},
        {"callId": "c", "source": "t", "status": "done", "content": "x"},
    ],
)
def test_bad_results(result: JsonObject) -> None:
    """A result whose parts don't fit its status, or whose error is not safe, is INVALID_INPUT."""
    with pytest.raises(NodeInputError):
        InteractionNodes().observe({"result": result})


class Sink:
    """Gives a receipt, or what a test wants instead."""

    def __init__(self, answer: Callable[[OutputInput], object]) -> None:
        self.answer = answer
        self.delivered: list[OutputInput] = []

    def deliver(self, output: OutputInput, call: ActionCall) -> OutputReceipt:
        self.delivered.append(output)
        return self.answer(output)  # type: ignore[return-value]  # some tests answer nonsense


DELIVERY = {"deliveryId": "d", "message": {"role": "assistant", "content": "hi"}}


def receipt(answer: Callable[[OutputInput], object], call: InteractionCall | None = None) -> OutputReceipt:
    return InteractionNodes(sink=Sink(answer)).output(DELIVERY, call=call or InteractionCall())


def test_receipts() -> None:
    """An accepted and a rejected receipt are passed on."""
    accepted = OutputReceipt(delivery_id="d", status="accepted")
    assert receipt(lambda _: accepted) == accepted
    rejected = OutputReceipt(
        delivery_id="d", status="rejected", error=ExternalError(code="FULL", message="full")
    )
    assert receipt(lambda _: rejected) == rejected


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (failing(RuntimeError("canary")), "SINK_FAILED"),
        (failing(ToolError("BROKEN", "broken")), "BROKEN"),
        (lambda _: None, "INVALID_RECEIPT"),
        (lambda _: OutputReceipt(delivery_id="other", status="accepted"), "INVALID_RECEIPT"),
    ],
)
def test_bad_sinks(answer: Callable[[OutputInput], object], code: str) -> None:
    """A sink that raises or answers nonsense leaves an unknown delivery, and is asked once."""
    found = receipt(answer)
    assert (found.delivery_id, found.status, found.error and found.error.code) == ("d", "unknown", code)
    assert "canary" not in str(to_wire(found))


def test_no_sink() -> None:
    """Without a sink OUTPUT raises."""
    with pytest.raises(InteractionError, match="SINK_UNAVAILABLE"):
        InteractionNodes().output(DELIVERY)


def test_unknown_delivery_is_a_receipt() -> None:
    """A delivery of unknown outcome is a receipt with status unknown."""

    def once(*_: object) -> JsonValue:
        raise EffectUnknownError("OUTCOME_UNKNOWN", "nobody knows")

    found = receipt(lambda _: None, InteractionCall(once=once))
    assert (found.status, found.error and found.error.code) == ("unknown", "OUTCOME_UNKNOWN")


def test_unknown_node_and_cancelled_call() -> None:
    """An unknown node raises UNKNOWN_NODE; a call that is cancelled already raises its reason."""
    with pytest.raises(InteractionError, match="UNKNOWN_NODE"):
        nodes().execute("INTERACTION.toString", {})
    token = CancelToken()
    token.cancel()
    with pytest.raises(Cancelled):
        nodes().act_tool(CALL, call=InteractionCall(token=token))


def test_mcp_without_servers() -> None:
    """Without configured servers, ACT.MCP raises a typed error; without permission too."""
    with pytest.raises(InteractionError, match="MCP_UNAVAILABLE"):
        InteractionNodes().act_mcp({"operation": "discover"})
    for bad in ({}, {"operation": "x"}, {"operation": "invoke"}, {"operation": "discover", "call": 1}):
        with pytest.raises(DittoError, match="INVALID_INPUT"):
            InteractionNodes().act_mcp(bad)


def test_concurrency_of_entry_calls(hold: threading.Event) -> None:
    """With a concurrency of 1 a second call waits for its turn until its time is up, or has its record."""
    began = threading.Event()

    def run(*_: object) -> object:
        began.set()
        hold.wait(60)
        return "ok"

    registry = ToolRegistry()
    registry.register(Tool(name="t", description="", input_schema=SCHEMA, run=run))
    narrow = InteractionNodes(registry, permissions=Permissions(tools=frozenset({"t"})), concurrency=1)
    first = threading.Thread(target=narrow.act_tool, args=(CALL,))
    first.start()
    assert began.wait(20)
    with pytest.raises(InteractionError, match="TIMEOUT"):
        narrow.act_tool(CALL, call=InteractionCall(timeout_ms=100))
    recorded: JsonValue = {"callId": "c1", "source": "t", "status": "success", "content": "before"}
    repeat = InteractionCall(timeout_ms=100, once=lambda *_: recorded)
    assert to_wire(narrow.act_tool(CALL, call=repeat)) == recorded
    hold.set()
    first.join(20)
    assert narrow.act_tool(CALL).status == "success"
