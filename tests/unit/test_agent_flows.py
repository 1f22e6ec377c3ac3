"""The agent flows in process: a tool into a context, react with two tools, summarize."""

import json

import pytest
from support.models import ScriptedProvider, in_turn, text_sample

from ditto_tasks.context import Context, ContextNodes
from ditto_tasks.errors import InferError, PipelineError
from ditto_tasks.infer.nodes import InferNodes
from ditto_tasks.infer.values import ActionRequest, Message, Sample
from ditto_tasks.interaction.base import Tool, ToolError
from ditto_tasks.interaction.nodes import InteractionNodes
from ditto_tasks.interaction.permissions import Permissions
from ditto_tasks.interaction.registry import ToolRegistry
from ditto_tasks.interaction.sinks import LogSink
from ditto_tasks.json_values import JsonObject
from ditto_tasks.models import from_wire, to_wire
from ditto_tasks.pipelines.agent_flows import mcp_flow, react_flow, summarize_flow, tool_flow
from ditto_tasks.pipelines.react import ReactRequest, ReactResult

NODES = ContextNodes()
CALL: JsonObject = {"id": "c1", "name": "add", "arguments": {"a": 1, "b": 2}}


def add(arguments: JsonObject, call: object) -> object:
    return {"sum": int(str(arguments["a"])) + int(str(arguments["b"]))}


def broken(arguments: JsonObject, call: object) -> object:
    raise ToolError("NO_ROOM", "no room")


def interaction() -> InteractionNodes:
    registry = ToolRegistry()
    for name, run in (("add", add), ("broken", broken)):
        registry.register(Tool(name=name, description="", input_schema={"type": "object"}, run=run))
    return InteractionNodes(
        registry, permissions=Permissions(tools=frozenset({"add", "broken"})), sink=LogSink()
    )


def context(*ids: str, **metadata: object) -> Context:
    return NODES.load(sources=[{"id": key, "content": f"text of {key}", "metadata": metadata} for key in ids])


def test_tool_flow() -> None:
    """A tool's answer becomes an item of the context under its call's id."""
    done = tool_flow(NODES, interaction(), context("a"), CALL)
    item = done.context.items[-1]
    assert (item.id, item.content) == ("observation:c1", {"sum": 3})
    assert item.metadata == {
        "callId": "c1",
        "source": "add",
        "status": "success",
        "sourceNode": "INTERACTION.OBSERVE",
    }


def test_failed_tool_flow() -> None:
    """A failed tool raises, or is added as what it is where that is wanted."""
    call = {**CALL, "name": "broken"}
    with pytest.raises(PipelineError, match="OBSERVATION_FAILED"):
        tool_flow(NODES, interaction(), context("a"), call)
    done = tool_flow(NODES, interaction(), context("a"), call, on_failed_observation="add")
    assert done.context.items[-1].content == "failed: NO_ROOM: no room"


class Mcp:
    """Offers nothing, and echoes."""

    def discover(self, server: str, call: object) -> list[object]:
        return []

    def invoke(self, server: str, tool: object, call: object) -> object:
        return "echo"


def test_mcp_flow() -> None:
    """A discovery leaves the context alone; an invocation is added to it."""
    acting = InteractionNodes(mcp=Mcp(), permissions=Permissions(mcp=frozenset({"s"})))  # type: ignore[arg-type]  # a fake
    before = context("a")
    found = mcp_flow(NODES, acting, before, {"operation": "discover", "server": "s"})
    assert (found.context, found.observation) == (before, None)
    done = mcp_flow(NODES, acting, before, {"operation": "invoke", "server": "s", "call": CALL})
    assert [item.id for item in done.context.items] == ["a", "observation:c1"]


def wanting(*requests: tuple[str, str, JsonObject]) -> Sample:
    asked = tuple(ActionRequest(id=key, name=name, arguments=given) for key, name, given in requests)
    message = Message(role="assistant", content="")
    return Sample(message=message, action_requests=asked, finish_reason="action_request")


def react(*answers: object, **limits: object) -> tuple[ReactResult, ScriptedProvider]:
    provider = ScriptedProvider(in_turn(*answers))
    actions = [
        {"name": "add", "inputSchema": {}},
        {"name": "broken", "inputSchema": {}},
        {"name": "tell", "inputSchema": {}, "targetNode": "INTERACTION.OUTPUT"},
        {"name": "denied", "inputSchema": {}},
    ]
    given = {"messages": [{"role": "user", "content": "q"}], "actions": actions, "limits": limits}
    request = from_wire(ReactRequest, given)
    return react_flow(InferNodes({"p": provider}), interaction(), request), provider


def test_react_with_two_tools() -> None:
    """Two tools and an output later the model answers, having seen every outcome, failures too."""
    first = wanting(("1", "add", {"a": 1, "b": 2}), ("2", "broken", {}))
    second = wanting(("3", "tell", {"content": "hi"}), ("4", "denied", {}))
    result, provider = react(first, second, "done")
    assert (result.status, result.stop_reason) == ("completed", "stop")
    assert result.result == Message(role="assistant", content="done")
    seen = [str(message.content) for message in provider.requests[-1].messages if message.role == "tool"]
    assert seen[:3] == ['{"sum":3}', "failed: NO_ROOM: no room", "accepted"]
    assert seen[3].startswith("failed: PERMISSION_DENIED")


def test_react_is_bounded() -> None:
    """A model that never stops asking is stopped by the budget of steps."""
    result, provider = react(*[wanting(("1", "add", {"a": 1, "b": 1}))] * 3, maxSteps=3)
    assert (result.status, result.stop_reason) == ("partial", "max_steps")
    assert len(provider.requests) == len(result.observations) == 3


def test_summarize() -> None:
    """Exactly the items that may go are replaced by one summary."""
    answer = json.dumps({"summary": "short", "sources": ["a"]})
    infer = InferNodes({"p": ScriptedProvider(in_turn(text_sample(answer)))})
    kept = NODES.update(context=context("a", "b"), add=context("k", protected=True).items)
    done = summarize_flow(NODES, infer, kept, operation_id="op", max_tokens=50, model="m")
    assert [(item.id, item.content) for item in done.items] == [("k", "text of k"), ("summary:op", "short")]


@pytest.mark.parametrize(
    ("answer", "error"),
    [("nonsense", InferError), (json.dumps({"summary": "s", "sources": ["z"]}), PipelineError)],
)
def test_rejected_summary_changes_nothing(answer: str, error: type[Exception]) -> None:
    """A summary that is no good raises, and the context is what it was."""
    before = context("a", "b")
    wire = to_wire(before)
    infer = InferNodes({"p": ScriptedProvider(in_turn(text_sample(answer)))})
    with pytest.raises(error):
        summarize_flow(NODES, infer, before, operation_id="op", max_tokens=50, model="m")
    assert to_wire(before) == wire
