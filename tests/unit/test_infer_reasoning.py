"""REFLECT, DELIBERATE and TRAJECTORY: accepted answers, refused answers, strategies and budgets."""

import json
from collections.abc import Callable

import pytest
from support.models import FakeClock, ScriptedProvider, in_turn, text_sample

from ditto_tasks.infer.asking import InferDefaults
from ditto_tasks.infer.base import InferCall, ModelRequest, Problem, StrategyTools, TransientProviderError
from ditto_tasks.infer.nodes import InferNodes
from ditto_tasks.infer.values import Message
from ditto_tasks.json_values import JsonObject
from ditto_tasks.models import NodeResult, to_wire

ASSESSED = '{"assessment": {"passed": true, "summary": "fine"}}'
MODEL = {"model": "m"}
HELLO = [{"role": "user", "content": "hi"}]
CANDIDATES = [{"id": key, "result": {"role": "assistant", "content": key.upper()}} for key in ("a", "b", "c")]


def nodes(*answers: object, **fields: object) -> tuple[InferNodes, ScriptedProvider]:
    provider = ScriptedProvider(in_turn(*answers))
    return InferNodes({"p": provider}, **fields), provider  # type: ignore[arg-type]  # fields of the constructor


def output(result: NodeResult) -> JsonObject:
    assert result.status == "success", result
    assert isinstance(result.output, dict)
    return result.output


def code(result: NodeResult) -> str:
    assert result.error is not None, result
    return result.error.code


def reflect(answer: object, **fields: object) -> NodeResult:
    return nodes(answer)[0].reflect({"target": {"result": "x"}, "mode": "critique", "model": MODEL, **fields})


def deliberate(answer: object, **fields: object) -> NodeResult:
    return nodes(answer)[0].deliberate({"candidates": CANDIDATES, "model": MODEL, **fields})


def follow(
    strategy: str,
    *answers: object,
    options: object = None,
    defaults: InferDefaults | None = None,
    **limits: object,
) -> tuple[NodeResult, ScriptedProvider]:
    opened, provider = nodes(*answers, defaults=defaults)
    chosen = {"name": strategy} | ({"options": options} if options is not None else {})
    given = {"messages": HELLO, "strategy": chosen, "model": MODEL}
    return opened.trajectory({**given, "constraints": limits} if limits else given), provider


@pytest.mark.parametrize("answer", [ASSESSED, f"```json\n{ASSESSED}\n```", f"  ```\n{ASSESSED}```  "])
def test_reflection_is_accepted(answer: str) -> None:
    """A JSON answer, plain or as one fenced block, becomes the assessment."""
    assert output(reflect(answer)) == {"assessment": {"passed": True, "summary": "fine"}, "issues": []}


def test_revision() -> None:
    """A revision carries the issues and the revised result as a message."""
    answer = {
        "assessment": {"summary": "s"},
        "issues": [{"severity": "high", "description": "d", "suggestedFix": "f"}],
        "revisedResult": "better",
    }
    revised = output(reflect(json.dumps(answer), mode="revise"))
    assert revised["revisedResult"] == {"role": "assistant", "content": "better"}
    assert revised["issues"] == answer["issues"]


@pytest.mark.parametrize(
    ("answer", "mode", "expected"),
    [
        ("fine", "critique", "INVALID_MODEL_OUTPUT"),
        (f"Here you are: {ASSESSED}", "critique", "INVALID_MODEL_OUTPUT"),
        (f"```json\n{ASSESSED}\n```\n```json\n{ASSESSED}\n```", "critique", "INVALID_MODEL_OUTPUT"),
        ("[]", "critique", "INVALID_MODEL_OUTPUT"),
        ('{"assessment": {"summary": NaN}}', "critique", "INVALID_MODEL_OUTPUT"),
        ('{"assessment": {"passed": "yes", "summary": ""}}', "critique", "INVALID_MODEL_OUTPUT"),
        ('{"assessment": {"summary": ""}, "extra": 1}', "critique", "INVALID_MODEL_OUTPUT"),
        ('{"assessment": {"summary": "no verdict"}}', "verify", "INVALID_MODEL_OUTPUT"),
        (ASSESSED, "revise", "INVALID_MODEL_OUTPUT"),
        (text_sample(ASSESSED, finish="length"), "critique", "INCOMPLETE_MODEL_OUTPUT"),
        (text_sample("", finish="error"), "critique", "INVALID_MODEL_OUTPUT"),
    ],
)
def test_bad_reflections(answer: object, mode: str, expected: str) -> None:
    """An answer that is not the asked object, or was cut, is refused and never repaired."""
    assert code(reflect(answer, mode=mode)) == expected


@pytest.mark.parametrize("target", [{}, {"result": 1, "artifact": 2}, None, {"other": 1}])
def test_reflection_has_one_target(target: object) -> None:
    """A reflection without exactly one target is INVALID_INPUT."""
    assert code(reflect(ASSESSED, target=target)) == "INVALID_INPUT"


def test_reflection_shows_all_it_was_given() -> None:
    """Target, criteria, context, memory and messages reach the model; the ids stay in the metadata."""
    opened, provider = nodes(ASSESSED)
    opened.reflect(
        {
            "target": {"artifact": {"k": "the target"}},
            "mode": "verify",
            "criteria": ["short"],
            "messages": HELLO,
            "context": [{"id": "c1", "content": "ctx", "score": 1}],
            "memory": [{"id": "m1", "content": {"k": 1}}],
        }
    )
    system, context, memory, hello, data = provider.requests[0].messages
    assert "passed" in str(system.content)
    assert (context.content, context.metadata) == ("ctx", {"contextItemId": "c1"})
    assert (memory.content, memory.metadata) == ('{"k":1}', {"memoryId": "m1"})
    assert to_wire(hello) == HELLO[0]
    assert json.loads(str(data.content)) == {
        "mode": "verify",
        "criteria": ["short"],
        "target": {"artifact": {"k": "the target"}},
    }


def test_selection() -> None:
    """Select gives the ids best first and the first one's own message."""
    selected = output(deliberate('{"selectedIds": ["c", "a"], "rationale": "r"}', selectCount=2))
    assert selected == {
        "mode": "select",
        "result": {"role": "assistant", "content": "C"},
        "selectedIds": ["c", "a"],
        "rationale": "r",
    }


@pytest.mark.parametrize(
    "answer",
    ['{"selectedIds": []}', '{"selectedIds": ["z"]}', '{"selectedIds": ["a", "b"]}', '{"result": "a"}', "a"],
)
def test_bad_selections(answer: str) -> None:
    """Unknown, missing or too many ids are INVALID_MODEL_OUTPUT."""
    assert code(deliberate(answer)) == "INVALID_MODEL_OUTPUT"


def test_selected_twice() -> None:
    """An id counts once."""
    assert code(deliberate('{"selectedIds": ["a", "a"]}', selectCount=2)) == "INVALID_MODEL_OUTPUT"


@pytest.mark.parametrize("mode", ["merge", "consensus", "debate"])
def test_made_of_all(mode: str) -> None:
    """The other modes give one new message."""
    made = output(deliberate('{"result": "all"}', mode=mode))
    assert made == {"mode": mode, "result": {"role": "assistant", "content": "all"}}


def test_no_consensus() -> None:
    """Where the candidates do not agree the consensus fails as NO_CONSENSUS."""
    assert code(deliberate('{"result": null}', mode="consensus")) == "NO_CONSENSUS"
    assert code(deliberate('{"result": null}', mode="merge")) == "INVALID_MODEL_OUTPUT"


@pytest.mark.parametrize(
    "fields", [{"candidates": []}, {"candidates": CANDIDATES[:1] * 2}, {"selectCount": 4}, {"mode": "vote"}]
)
def test_bad_deliberations(fields: JsonObject) -> None:
    """No candidates, one id twice, too large a selectCount or an unknown mode is INVALID_INPUT."""
    assert code(deliberate("{}", **fields)) == "INVALID_INPUT"


def test_deliberation_is_bounded() -> None:
    """A deliberation asks for at most 4096 tokens unless told otherwise."""
    opened, provider = nodes('{"selectedIds": ["a"]}', '{"selectedIds": ["a"]}')
    opened.deliberate({"candidates": CANDIDATES})
    opened.deliberate({"candidates": CANDIDATES, "generation": {"maxTokens": 5}})
    assert [request.generation.max_tokens for request in provider.requests] == [4096, 5]


@pytest.mark.parametrize(("strategy", "samples"), [("cot", 2), ("long-cot", 4), ("tot", 11), ("got", 8)])
def test_samples_of_a_strategy(strategy: str, samples: int) -> None:
    """With its defaults each strategy takes its number of samples, judging included, and completes."""
    provider = ScriptedProvider(_answer_or_judge)
    opened = InferNodes({"p": provider})
    done = output(opened.trajectory({"messages": HELLO, "strategy": {"name": strategy}}))
    assert (done["status"], done["stopReason"]) == ("completed", "completed")
    assert len(provider.requests) == len(done["steps"]) == samples


def _answer_or_judge(request: ModelRequest) -> object:
    text = str(request.messages[0].content)
    if "selectedIds" in text:
        count = 2 if "exactly 2" in text else 1
        return text_sample(json.dumps({"selectedIds": ["1", "2"][:count]}))
    return text_sample('{"result": "merged"}' if '"result"' in text else "thought")


def test_chain_reviews_its_answer() -> None:
    """Each later round of cot sees the answer before it; the last one is the result."""
    result, provider = follow("cot", "first", "second", "third", options={"rounds": 3})
    assert output(result)["result"] == {"role": "assistant", "content": "third"}
    assert [message.content for message in provider.requests[2].messages if message.role == "assistant"] == [
        "second"
    ]


def test_vote() -> None:
    """Self-consistency takes the answer given most often, equal up to JSON form and spaces."""
    result, _ = follow("self-consistency", '{"a": 1, "b": 2}', "x", '{"b":2,"a":1.0}')
    assert output(result)["result"] == {"role": "assistant", "content": '{"a": 1, "b": 2}'}


def test_tied_vote() -> None:
    """A tie is NO_CONSENSUS."""
    assert (
        code(follow("self-consistency", "x", "y", "x", "y", options={"candidates": 4})[0]) == "NO_CONSENSUS"
    )


@pytest.mark.parametrize(
    ("strategy", "options", "path"),
    [
        ("cot", {"rounds": 0}, "/strategy/options/rounds"),
        ("cot", {"rounds": 65}, "/strategy/options/rounds"),
        ("cot", {"rounds": "2"}, "/strategy/options/rounds"),
        ("tot", {"breadth": 17}, "/strategy/options/breadth"),
        ("got", {"beamWidth": 2}, "/strategy/options/beamWidth"),
        ("self-consistency", {"x": 1}, "/strategy/options/x"),
    ],
)
def test_bad_options(strategy: str, options: object, path: str) -> None:
    """An option out of range or unknown is INVALID_INPUT with its path."""
    result, provider = follow(strategy, options=options)
    assert code(result) == "INVALID_INPUT"
    assert result.error is not None
    assert result.error.message.startswith(path)
    assert provider.requests == []


def test_unknown_strategy() -> None:
    """A name that is not registered is UNKNOWN_STRATEGY."""
    assert code(follow("guess")[0]) == "UNKNOWN_STRATEGY"


def test_option_defaults_come_from_the_worker() -> None:
    """Configured options hold unless the request gives its own."""
    defaults = InferDefaults(strategies={"cot": {"rounds": 1}})
    assert len(follow("cot", "a", defaults=defaults)[1].requests) == 1
    assert len(follow("cot", "a", "b", defaults=defaults, options={"rounds": 2})[1].requests) == 2


def test_step_budget() -> None:
    """The step budget ends a trajectory as a partial success with the last answer."""
    result, provider = follow("cot", "a", "b", options={"rounds": 3}, maxSteps=2)
    done = output(result)
    assert (done["status"], done["stopReason"]) == ("partial", "max_steps")
    assert done["result"] == {"role": "assistant", "content": "b"}
    assert len(provider.requests) == 2


def test_sixteen_steps_by_default() -> None:
    """Without constraints a trajectory ends after 16 samples."""
    result, _ = follow("cot", *["a"] * 16, options={"rounds": 64})
    assert output(result)["stopReason"] == "max_steps"
    assert len(output(result)["steps"]) == 16


def test_token_budget() -> None:
    """What is left of the tokens caps the next sample; spent tokens end the trajectory as partial."""
    first, second = text_sample("a", tokens=60), text_sample("b", tokens=40)
    result, provider = follow("cot", first, second, options={"rounds": 3}, maxTotalTokens=100)
    done = output(result)
    assert [request.generation.max_tokens for request in provider.requests] == [100, 40]
    assert (done["status"], done["stopReason"], done["usage"]) == (
        "partial",
        "max_total_tokens",
        {"totalTokens": 100},
    )


def test_sample_cut_by_the_token_budget() -> None:
    """A last answer that the budget cut leaves the trajectory partial, not completed."""
    first, cut = text_sample("a", tokens=60), text_sample("b", tokens=30, finish="length")
    result, _ = follow("cot", first, cut, maxTotalTokens=100)
    assert output(result)["stopReason"] == "max_total_tokens"


def test_token_budget_needs_usage() -> None:
    """With a token budget an answer without usage is USAGE_UNAVAILABLE."""
    assert code(follow("cot", "a", "b", maxTotalTokens=100)[0]) == "USAGE_UNAVAILABLE"


def test_usage_is_summed() -> None:
    """The trajectory's usage is the sum where every sample reported it, else absent."""
    full = follow("cot", text_sample("a", tokens=1), text_sample("b", tokens=2))[0]
    assert output(full)["usage"] == {"totalTokens": 3}
    assert "usage" not in output(follow("cot", text_sample("a", tokens=1), "b")[0])


def _slow(clock: FakeClock, seconds: float) -> Callable[[ModelRequest], object]:
    def answer(_: ModelRequest) -> object:
        clock.time_s += seconds
        return text_sample("slow")

    return answer


def test_time_budget() -> None:
    """The trajectory's own time ends it as partial; the call's time is a timeout."""
    clock = FakeClock()
    opened = InferNodes({"p": ScriptedProvider(_slow(clock, 2.0))}, clock=clock)
    given = {"messages": HELLO, "strategy": {"name": "cot", "options": {"rounds": 4}}}
    partial = opened.trajectory({**given, "constraints": {"timeoutMs": 3_000}})
    assert (output(partial)["status"], output(partial)["stopReason"]) == ("partial", "timeout")
    late = opened.trajectory(given, call=InferCall(timeout_ms=3_000))
    assert (late.status, code(late)) == ("timeout", "TIMEOUT")


def test_custom_strategy() -> None:
    """A registered strategy sees the problem and its three tools, and its notes become steps."""
    seen: list[Problem] = []

    def pick(problem: Problem, tools: StrategyTools) -> Message:
        seen.append(problem)
        tools.step("two tries")
        tries = [tools.sample(problem.messages, label="try").message for _ in range(2)]
        return tools.deliberate(tries)[0]

    opened, _ = nodes("one", "two", '{"selectedIds": ["2"]}', strategies={"pick": pick})
    events: list[JsonObject] = []
    done = opened.trajectory(
        {"messages": HELLO, "strategy": {"name": "pick", "options": {"k": 1}}, "objective": "o"},
        call=InferCall(emit=events.append),
    )
    assert output(done)["result"] == {"role": "assistant", "content": "two"}
    assert [step["kind"] for step in output(done)["steps"]] == ["note", "sample", "sample", "deliberate"]
    assert [event["type"] for event in events] == ["start", *["step"] * 4, "result"]
    assert (seen[0].objective, seen[0].options) == ("o", {"k": 1})


def test_strategy_without_a_result() -> None:
    """A strategy that finds nothing leaves a failed trajectory in a successful node."""
    opened, _ = nodes(strategies={"none": lambda *_: None})
    done = output(opened.trajectory({"messages": HELLO, "strategy": {"name": "none"}}))
    assert (done["status"], done["stopReason"], done["steps"]) == ("failed", "no_result", [])


def test_broken_strategy() -> None:
    """A strategy that raises fails the node as EXECUTION_FAILED without its text."""

    def broken(problem: Problem, tools: StrategyTools) -> Message:
        raise RuntimeError("canary")

    result = nodes(strategies={"broken": broken})[0].trajectory(
        {"messages": HELLO, "strategy": {"name": "broken"}}
    )
    assert code(result) == "EXECUTION_FAILED"
    assert "canary" not in str(to_wire(result))


def test_retries_back_off() -> None:
    """Without advice the waits between retries double."""
    clock, busy = FakeClock(), TransientProviderError("PROVIDER_HTTP_ERROR", "busy")
    provider = ScriptedProvider(in_turn(busy, busy, busy, "ok"))
    result = InferNodes({"p": provider}, clock=clock).sample({"messages": HELLO}, call=InferCall(retries=3))
    assert result.status == "success"
    assert clock.waits == [0.5, 1.0, 2.0]


def test_stream_in_process() -> None:
    """A node's events can be iterated over: start, steps, and exactly one result at the end."""
    opened, _ = nodes("one", "two")
    given = {"messages": HELLO, "strategy": {"name": "cot"}}
    events = list(opened.stream("INFER.REASONING.TRAJECTORY", given))
    assert [event["type"] for event in events] == ["start", "step", "step", "result"]
    bad = list(opened.stream("INFER.REASONING.SAMPLE", {}))
    assert [event["type"] for event in bad] == ["start", "result"]


def test_stopped_stream_cancels() -> None:
    """Who stops listening cancels the node: no further sample is asked for."""
    opened, provider = nodes(*["again"] * 64)
    given = {"messages": HELLO, "strategy": {"name": "cot", "options": {"rounds": 64}}}
    events = opened.stream("INFER.REASONING.TRAJECTORY", {**given, "constraints": {"maxSteps": 64}})
    assert next(events)["type"] == "start"
    events.close()  # type: ignore[attr-defined]  # a generator
    asked = len(provider.requests)
    assert list(events) == []
    assert len(provider.requests) == asked
