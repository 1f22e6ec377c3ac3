"""INFER nodes in process: results, limits, choice of provider and model, what of an answer is accepted."""

import threading
from collections.abc import Callable

import pytest
from support.models import ScriptedProvider, text_sample

from ditto_tasks.errors import InferError
from ditto_tasks.infer.asking import InferDefaults
from ditto_tasks.infer.base import InferCall, ModelRequest
from ditto_tasks.infer.nodes import InferNodes
from ditto_tasks.infer.providers.extractive import ExtractiveProvider
from ditto_tasks.infer.sampling import add_usage, total_tokens
from ditto_tasks.infer.values import GenerationConfig, Message, Sample, Usage
from ditto_tasks.models import CancelToken, NodeResult, to_wire

HELLO = {"messages": [{"role": "user", "content": "hi"}], "model": {"model": "m"}}


def say(text: str = "ok", **fields: object) -> Callable[[ModelRequest], object]:
    message = Message(role="assistant", content=text)
    return lambda _: Sample(message=message, finish_reason="stop", **fields)


def boom(error: Exception) -> Callable[[ModelRequest], object]:
    def answer(_: ModelRequest) -> object:
        raise error

    return answer


def code(result: NodeResult) -> str:
    assert result.error is not None, result
    assert result.output is None
    return result.error.code


@pytest.mark.parametrize(
    ("given", "path"),
    [
        (None, ""),
        ([], ""),
        ("text", ""),
        ({}, "/messages"),
        ({**HELLO, "messages": []}, "/messages"),
        ({**HELLO, "messages": None}, "/messages"),
        ({**HELLO, "messages": [{"role": "robot", "content": ""}]}, "/messages/0/role"),
        ({**HELLO, "messages": [{"role": "user"}]}, "/messages/0/content"),
        ({**HELLO, "messages": [{"role": "user", "content": "", "name": "n"}]}, "/messages/0/name"),
        ({**HELLO, "surprise": 1}, "/surprise"),
        ({**HELLO, "self": 1}, "/self"),
        ({**HELLO, "model": {"model": ""}}, "/model/model"),
        ({**HELLO, "generation": {"temperature": 2.1}}, "/generation/temperature"),
        ({**HELLO, "generation": {"temperature": True}}, "/generation/temperature"),
        ({**HELLO, "generation": {"topP": float("nan")}}, "/generation/topP"),
        ({**HELLO, "generation": {"maxTokens": "9"}}, "/generation/maxTokens"),
        ({**HELLO, "generation": {"maxTokens": 2**70}}, "/generation/maxTokens"),
        ({**HELLO, "generation": {"seed": 1.5}}, "/generation/seed"),
        ({**HELLO, "actions": [{"name": "a b", "inputSchema": {}}]}, "/actions/0/name"),
        ({**HELLO, "actions": [{"name": "ab\n", "inputSchema": {}}]}, "/actions/0/name"),
        ({**HELLO, "actions": [{"name": "a", "inputSchema": {}}] * 2}, ""),
        ({**HELLO, "metadata": {"x": float("inf")}}, "/metadata"),
    ],
)
def test_bad_input_names_its_path(given: object, path: str) -> None:
    """Every bad input is a failed result with INVALID_INPUT and the path, and no provider is asked."""
    provider = ScriptedProvider(say())
    result = InferNodes({"p": provider}).sample(given)  # type: ignore[arg-type]  # bad on purpose
    assert code(result) == "INVALID_INPUT"
    assert result.error is not None
    assert result.error.message.startswith(f"{path or 'input'}")
    assert provider.requests == []


def test_unknown_node() -> None:
    """A node type that INFER has not is UNKNOWN_NODE, whatever the input."""
    assert code(InferNodes({}).execute("INFER.toString", {})) == "UNKNOWN_NODE"


def test_result_is_wrapped_once() -> None:
    """The output of a node is the node's own value; status and ids stand beside it."""
    result = InferNodes({"p": ScriptedProvider(say())}).execute(
        "INFER.REASONING.SAMPLE", HELLO, execution_id="e"
    )
    assert to_wire(result) == {
        "executionId": "e",
        "node": "INFER.REASONING.SAMPLE",
        "status": "success",
        "output": {"message": {"role": "assistant", "content": "ok"}, "finishReason": "stop"},
    }


@pytest.mark.parametrize(
    ("wanted", "default", "names", "chosen"),
    [
        ("a", "b", ["a", "b"], "a"),
        (None, "b", ["a", "b"], "b"),
        (None, None, ["a"], "a"),
        (None, None, ["a", "extractive"], "a"),
        (None, None, ["extractive"], "extractive"),
        ("extractive", "a", ["a", "extractive"], "extractive"),
        (None, None, ["a", "b"], None),
        ("c", "a", ["a"], None),
        (None, "c", ["a"], None),
        (None, None, [], None),
    ],
)
def test_choice_of_provider(
    wanted: str | None, default: str | None, names: list[str], chosen: str | None
) -> None:
    """The input's provider wins, then the default, then the only one; the built-in is no rival."""
    providers = {name: ScriptedProvider(say(name)) for name in names}
    nodes = InferNodes(providers, defaults=InferDefaults(provider=default))
    model = {"model": "m"} | ({"provider": wanted} if wanted else {})
    result = nodes.sample({**HELLO, "model": model})
    if chosen is None:
        assert code(result) == "PROVIDER_NOT_FOUND"
    else:
        assert [name for name, each in providers.items() if each.requests] == [chosen]


def test_choice_of_model() -> None:
    """The input's model wins, then the worker's, then the provider's; without any the input is bad."""
    messages = {"messages": HELLO["messages"]}
    own, none = ScriptedProvider(say(), default_model="own"), ScriptedProvider(say(), default_model=None)
    InferNodes({"p": own}, defaults=InferDefaults(model="worker")).sample(HELLO)
    InferNodes({"p": own}, defaults=InferDefaults(model="worker")).sample(messages)
    InferNodes({"p": own}).sample(messages)
    assert [request.model for request in own.requests] == ["m", "worker", "own"]
    assert code(InferNodes({"p": none}).sample(messages)) == "INVALID_INPUT"


def test_generation_defaults() -> None:
    """A given generation value replaces the worker's one by one."""
    provider = ScriptedProvider(say())
    defaults = InferDefaults(generation=GenerationConfig(temperature=0.1, seed=1))
    InferNodes({"p": provider}, defaults=defaults).sample({**HELLO, "generation": {"seed": 2}})
    assert to_wire(provider.requests[0].generation) == {"temperature": 0.1, "seed": 2}


def test_provider_errors_are_safe() -> None:
    """An unknown error of a provider is MODEL_ERROR without its text; a typed one keeps its code."""
    raw = InferNodes({"p": ScriptedProvider(boom(RuntimeError("canary")))}).sample(HELLO)
    assert code(raw) == "MODEL_ERROR"
    assert "canary" not in str(to_wire(raw))
    typed = InferError("PROVIDER_HTTP_ERROR", "it said no")
    assert code(InferNodes({"p": ScriptedProvider(boom(typed))}).sample(HELLO)) == "PROVIDER_HTTP_ERROR"


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: None,
        lambda _: {"message": {}},
        lambda _: Sample(message=Message(role="user", content="x"), finish_reason="stop"),
    ],
)
def test_bad_provider_output(answer: Callable[[ModelRequest], object]) -> None:
    """What is not an assistant's sample is INVALID_MODEL_OUTPUT."""
    assert code(InferNodes({"p": ScriptedProvider(answer)}).sample(HELLO)) == "INVALID_MODEL_OUTPUT"


def test_cancelled_before_the_start() -> None:
    """A call that is cancelled already asks nobody, whatever the reason."""
    for reason in (None, KeyError("why")):
        token, provider = CancelToken(), ScriptedProvider(say())
        token.cancel(reason)
        result = InferNodes({"p": provider}).sample(HELLO, call=InferCall(token=token))
        assert (result.status, code(result)) == ("cancelled", "CANCELLED")
        assert provider.requests == []


def test_close_closes_every_provider() -> None:
    """Closing the nodes closes their providers."""
    providers = {"a": ScriptedProvider(say()), "b": ScriptedProvider(say())}
    InferNodes(providers).close()
    assert all(each.closed for each in providers.values())


def test_usage_is_added_only_where_reported() -> None:
    """A count that one sample lacks is absent from the sum, and a total is the reported one or both parts."""
    full = Usage(input_tokens=1, output_tokens=2, total_tokens=3)
    assert to_wire(add_usage(full, Usage(input_tokens=4, output_tokens=5))) == {
        "inputTokens": 5,
        "outputTokens": 7,
    }
    assert add_usage(full, None) is None
    assert total_tokens(full) == 3
    assert total_tokens(Usage(input_tokens=1, output_tokens=1)) == 2
    assert total_tokens(Usage(input_tokens=1)) is None


def test_concurrency_of_entry_calls() -> None:
    """With a concurrency of 1 a second call waits for its turn until its time is up, or has its record."""
    began, go_on = threading.Event(), threading.Event()

    def slow(_: ModelRequest) -> object:
        began.set()
        assert go_on.wait(20)
        return say()(_)

    nodes = InferNodes({"p": ScriptedProvider(slow)}, concurrency=1)
    first = threading.Thread(target=nodes.sample, args=(HELLO,))
    first.start()
    assert began.wait(20)
    late = nodes.sample(HELLO, call=InferCall(timeout_ms=100))
    assert (late.status, code(late)) == ("timeout", "TIMEOUT")
    recorded = text_sample("before")
    repeat = nodes.sample(HELLO, call=InferCall(timeout_ms=100, once=lambda *_: recorded))
    assert repeat.output == to_wire(recorded)
    go_on.set()
    first.join(20)
    assert nodes.sample(HELLO).status == "success"


def test_samples_are_recorded_unless_repeatable() -> None:
    """A sample goes through the recorder; one that costs and changes nothing does not."""
    seen: list[str] = []

    def once(request: ModelRequest, effect: Callable[[], Sample], admit: Callable[[], None]) -> Sample:
        seen.append(request.provider)
        admit()
        return effect()

    nodes = InferNodes({"billed": ScriptedProvider(say()), "extractive": ExtractiveProvider()})
    for provider in ("billed", "extractive"):
        model = {"provider": provider, "model": "m"}
        assert nodes.sample({**HELLO, "model": model}, call=InferCall(once=once)).status == "success"
    assert seen == ["billed"]
