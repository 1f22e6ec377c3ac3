"""Built-in strategies under budgets: how many samples each takes, and what ends it at every one of them."""

import json
from collections.abc import Callable

import pytest
from support.models import FakeClock, ScriptedProvider, text_sample

from ditto_tasks.infer.base import ModelRequest
from ditto_tasks.infer.nodes import InferNodes
from ditto_tasks.infer.strategies import BUILT_IN
from ditto_tasks.infer.strategies import options as strategy_options
from ditto_tasks.json_values import JsonObject
from ditto_tasks.models import NodeResult, WireModel
from ditto_tasks.settings import workers

# with the default options: samples and judgements, in the order in which they are taken
COURSES = {
    "cot": "ss",
    "long-cot": "ssss",
    "tot": "sssdssssssd",
    "got": "sssdsssd",
    "self-consistency": "sss",
}
STEPS = [(name, at) for name, course in COURSES.items() for at in range(1, len(course))]
TOKENS = 10  # of every answer
OPTIONS: dict[str, tuple[type[WireModel], str]] = {
    "cot": (strategy_options.ChainOptions, "cot"),
    "long-cot": (strategy_options.LongChainOptions, "long_cot"),
    "tot": (strategy_options.TreeOptions, "tot"),
    "got": (strategy_options.GraphOptions, "got"),
    "self-consistency": (strategy_options.VotingOptions, "self_consistency"),
}


def thought(request: ModelRequest) -> str:
    """The same thought again and again, or the judgement that was asked for."""
    asked = str(request.messages[0].content)
    if "selectedIds" in asked:
        return json.dumps({"selectedIds": ["1", "2"][: 2 if "exactly 2" in asked else 1]})
    return '{"result": "merged"}' if '"result"' in asked else "thought"


def billed(request: ModelRequest) -> object:
    return text_sample(thought(request), tokens=TOKENS)


def follow(
    name: str,
    answer: Callable[[ModelRequest], object] = billed,
    clock: FakeClock | None = None,
    **limits: int,
) -> tuple[NodeResult, list[ModelRequest]]:
    provider = ScriptedProvider(answer)
    nodes = InferNodes({"p": provider}, clock=clock)
    given = {"messages": [{"role": "user", "content": "hi"}], "strategy": {"name": name}}
    return nodes.trajectory({**given, "constraints": limits}), provider.requests


def output(result: NodeResult) -> JsonObject:
    assert isinstance(result.output, dict), result
    return result.output


def kinds(trajectory: JsonObject) -> str:
    steps = trajectory["steps"]
    assert isinstance(steps, list)
    return "".join(str(step["kind"])[0] for step in steps)


def stopped_at(result: NodeResult, reason: str, course: str) -> None:
    """The trajectory ended there: partial, every step it took in it, the last one's message its result."""
    ended = output(result)
    assert (ended["status"], ended["stopReason"], kinds(ended)) == ("partial", reason, course)
    assert ended["result"] == ended["steps"][-1]["message"]


def test_every_strategy_has_its_course() -> None:
    """The courses below are those of all built-in strategies, and have the specified lengths."""
    assert COURSES.keys() == BUILT_IN.keys()
    lengths = {name: len(course) for name, course in COURSES.items()}
    assert lengths == {"cot": 2, "long-cot": 4, "tot": 11, "got": 8, "self-consistency": 3}


@pytest.mark.parametrize("name", COURSES)
def test_samples_and_judgements_of_a_strategy(name: str) -> None:
    """With its defaults it takes exactly its course, and its usage is the sum of all answers."""
    result, requests = follow(name)
    done = output(result)
    assert (done["status"], kinds(done), len(requests)) == ("completed", COURSES[name], len(COURSES[name]))
    assert done["usage"] == {"totalTokens": TOKENS * len(COURSES[name])}


@pytest.mark.parametrize(("name", "at"), STEPS)
def test_the_step_budget_at_every_step(name: str, at: int) -> None:
    """maxSteps counts every answer, judgements too: not one more is asked for."""
    result, requests = follow(name, maxSteps=at)
    stopped_at(result, "max_steps", COURSES[name][:at])
    assert len(requests) == at


@pytest.mark.parametrize(("name", "at"), STEPS)
def test_the_token_budget_at_every_step(name: str, at: int) -> None:
    """What is left bounds each answer; when nothing is left, none is asked for."""
    budget = TOKENS * at
    result, requests = follow(name, maxTotalTokens=budget)
    stopped_at(result, "max_total_tokens", COURSES[name][:at])
    assert [request.generation.max_tokens for request in requests] == [budget - TOKENS * n for n in range(at)]


@pytest.mark.parametrize(("name", "at"), STEPS)
def test_an_answer_without_usage_at_every_step(name: str, at: int) -> None:
    """Under a token budget it fails the trajectory, and no further answer is asked for."""
    taken: list[ModelRequest] = []

    def answer(request: ModelRequest) -> object:
        taken.append(request)
        return text_sample(thought(request), tokens=None if len(taken) == at else TOKENS)

    result, requests = follow(name, answer, maxTotalTokens=10_000)
    assert (result.status, result.error and result.error.code) == ("failed", "USAGE_UNAVAILABLE")
    assert len(requests) == at


@pytest.mark.parametrize(("name", "at"), STEPS)
def test_the_time_budget_at_every_step(name: str, at: int) -> None:
    """Once timeoutMs is up no further answer is asked for."""
    clock = FakeClock()

    def answer(request: ModelRequest) -> object:
        clock.time_s += 1.0
        return billed(request)

    result, requests = follow(name, answer, clock, timeoutMs=1_000 * at)
    stopped_at(result, "timeout", COURSES[name][:at])
    assert len(requests) == at


@pytest.mark.parametrize("name", COURSES)
def test_settings_and_requests_have_the_same_options(name: str) -> None:
    """Names, bounds and defaults of a strategy's options are the same in both places."""
    model, group = OPTIONS[name]
    defaults = getattr(workers.Strategies(), group)
    assert _shape(type(defaults)) == _shape(model)
    assert defaults.model_dump(by_alias=True) == model().model_dump(by_alias=True)


def _shape(model: type) -> dict[str, dict[str, object]]:
    fields = model.model_json_schema(by_alias=True)["properties"]  # type: ignore[attr-defined]  # a pydantic model
    return {
        name: {key: value for key, value in field.items() if key != "title"} for name, field in fields.items()
    }


def test_strategies_of_settings_and_requests_have_the_same_names() -> None:
    """Each built-in strategy can be configured, and nothing else can."""
    assert set(workers.Strategies().model_dump(by_alias=True)) == set(BUILT_IN) == set(OPTIONS)
