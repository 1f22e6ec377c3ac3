"""Bad values in every field of every node, many at a time, against one real worker."""

import json
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

import jsonschema
import pytest
from pydantic import BaseModel, RootModel
from support.inputs import ALTERNATIVES, INPUTS, ITEM, NOT_JSON, ODD, Case, cases
from support.workers import Deployment

from ditto_tasks.canonical import scope_key
from ditto_tasks.errors import ContextError, DittoError, NodeInputError, PublishError
from ditto_tasks.models import from_wire
from ditto_tasks.nodes import CONTEXT, NODES, NodeType

INVALID = {"INVALID_INPUT", "RETRIEVAL_INVALID_INPUT"}
# what an answer to bad input never is: each stands for an exception that nobody expected
RAW = {"SERVICE_ERROR", "TASK_FAILED", "MEMORY_BACKEND_ERROR", "RETRIEVAL_BACKEND_ERROR", "EXECUTION_FAILED"}
RAW |= {"MODEL_ERROR", "INVALID_BACKEND_OUTPUT", "STATE_BACKEND_ERROR"}
SCOPE = {"sessionId": "untouched"}
TIMEOUT_S = 60


class Ending(NamedTuple):
    """How a call ended: its code, or None for a success, its message, and its error if it raised one."""

    code: str | None
    message: str = ""
    error: DittoError | None = None


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    memory = tmp_path_factory.mktemp("memory") / "memories.sqlite"
    env = {"DITTO_WORKER_MEMORY_URL": f"sqlite:///{memory}", "DITTO_SHARED_SANDBOX_ALLOW_TOOLS": "echo"}
    with Deployment(env=env, log_level="INFO") as running:
        running.call("CONTEXT.LOAD", scope=SCOPE, sources=[ITEM])
        running.call("MEMORY.WRITE", memories=[{"key": "kept", "content": "kept words"}])
        yield running


def snapshot(deployment: Deployment) -> tuple[object, object]:
    """The stored state and all memories."""
    state = deployment.state.get("ditto:context:" + scope_key(SCOPE))
    assert state is not None
    return state, deployment.call("MEMORY.QUERY")["output"]


def endings(deployment: Deployment, calls: Iterable[Case]) -> list[tuple[Case, Ending]]:
    """Send all, and then wait for each."""
    sent = [(case, _send(deployment, case)) for case in calls]
    return [(case, pending if isinstance(pending, Ending) else _ending(pending)) for case, pending in sent]


def _send(deployment: Deployment, case: Case) -> Any:
    try:
        return deployment.app.send_task(case.node, kwargs=case.wire)
    except DittoError as refusal:
        return Ending(refusal.code, refusal.message, refusal)


def _ending(pending: Any) -> Ending:
    try:
        result = pending.get(timeout=TIMEOUT_S)
    except DittoError as error:
        return Ending(error.code, error.message, error)
    error = result.get("error") if isinstance(result, dict) and "executionId" in result else None
    return Ending(error["code"], error["message"]) if error else Ending(None)


def is_refused(case: Case) -> bool:
    """Does the node's model, or the JSON Schema of it, refuse this input?"""
    row = NODES[case.node]
    try:
        from_wire(row.input_model, case.wire, error=DittoError)
    except DittoError:
        return True
    return row.domain != CONTEXT and not _validator(row.input_model).is_valid(case.wire)


@cache
def _validator(model: type[BaseModel]) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(model.model_json_schema(by_alias=True))


def fields_of(row: NodeType) -> set[str]:
    """The names that the input model knows, of all variants where it is a union."""
    if not issubclass(row.input_model, RootModel):
        return {field.alias or name for name, field in row.input_model.model_fields.items()}
    variants = row.input_model.model_json_schema(by_alias=True)["$defs"].values()
    return {name for each in variants if "operation" in each["properties"] for name in each["properties"]}


@pytest.mark.parametrize("node", sorted(NODES))
def test_the_table_has_every_field(node: str) -> None:
    """Each node's input in the table has every field of its model, but for those that exclude each other."""
    known = fields_of(NODES[node]) - ALTERNATIVES.get(node, set())
    assert set(INPUTS[node]) | ({"scope", "expectedVersion"} & known) == known


@pytest.mark.parametrize("node", sorted(NODES))
def test_bad_values_are_refused_and_change_nothing(deployment: Deployment, node: str) -> None:
    """What the model refuses is INVALID_INPUT from the task, of the domain's kind; nothing is changed."""
    before = snapshot(deployment)
    bad = [case for case in cases(node, ODD) if is_refused(case)]
    strange = Case(node, ("self",), "unknown", {**INPUTS[node], "self": 1})
    if NODES[node].domain != CONTEXT:  # CONTEXT ignores what it does not know
        bad.append(strange)
    for case, ending in endings(deployment, bad):
        assert ending.code in INVALID, (str(case), ending)
        assert ending.message.startswith((f"/{case.path[0]}", "input:")), (str(case), ending)
        if ending.error is not None:
            expected = ContextError if NODES[node].domain == CONTEXT else NodeInputError
            assert type(ending.error) is expected, str(case)
            assert "path" in (ending.error.details or {}), str(case)
    assert snapshot(deployment) == before
    assert deployment.worker.alive


@pytest.mark.parametrize("node", sorted(NODES))
def test_odd_values_that_are_allowed_end_in_an_answer(deployment: Deployment, node: str) -> None:
    """What the model takes succeeds or fails with a code of the node's own, never with an unexpected one."""
    odd = [case for case in cases(node, ODD) if not is_refused(case)]
    found = [(str(case), ending) for case, ending in endings(deployment, odd) if ending.code in RAW]
    assert found == []
    assert deployment.worker.alive
    assert deployment.call("CONTEXT.LOAD", scope=SCOPE) == {"items": [ITEM]}


@pytest.mark.parametrize("node", sorted(NODES))
def test_what_is_not_json_is_refused_where_it_is_sent(deployment: Deployment, node: str) -> None:
    """INVALID_INPUT at the sender, of the domain's kind, with the path of the value."""
    expected = ContextError if NODES[node].domain == CONTEXT else NodeInputError
    for case in cases(node, NOT_JSON):
        with pytest.raises(expected) as caught:
            deployment.app.send_task(node, kwargs=case.wire)
        assert caught.value.code == "INVALID_INPUT", str(case)
        path = "/" + "/".join(map(str, case.path))
        assert str((caught.value.details or {})["path"]).startswith(path), str(case)


@pytest.mark.parametrize("node", sorted(NODES))
def test_five_megabytes_are_refused_where_they_are_sent(deployment: Deployment, node: str) -> None:
    """Content of 5 MB in any field is MESSAGE_TOO_LARGE."""
    huge = "x" * 5_000_000
    for field in INPUTS[node]:
        with pytest.raises(PublishError, match="MESSAGE_TOO_LARGE"):
            deployment.app.send_task(node, kwargs={**INPUTS[node], field: huge})


@pytest.mark.parametrize("node", sorted(NODES))
def test_an_unknown_option_is_refused(deployment: Deployment, node: str) -> None:
    """In every domain `ditto` must be an object of options that the node has."""
    odd = [{"unknown": 1}, {"deadlineMs": "x"}, {"operationId": ""}, {"bind": 2**70}, "x", None, [], 1]
    calls = [Case(node, ("ditto",), repr(each), {**INPUTS[node], "ditto": each}) for each in odd]
    codes = {str(case): ending.code for case, ending in endings(deployment, calls)}
    assert set(codes.values()) <= INVALID, codes


def test_scoped_calls_leave_their_state_as_it_was(deployment: Deployment) -> None:
    """Every bad field of a scoped mutation is INVALID_INPUT, and the version is the one before."""
    before = snapshot(deployment)
    bad = [
        Case(case.node, case.path, case.kind, {**_without_context(case.wire), "scope": SCOPE})
        for node in sorted(NODES)
        if NODES[node].domain == CONTEXT
        for case in cases(node, ODD)
        if case.path[0] != "context" and is_refused(case)
    ]
    codes = {str(case): ending.code for case, ending in endings(deployment, bad)}
    assert {name: code for name, code in codes.items() if code != "INVALID_INPUT"} == {}
    assert snapshot(deployment) == before


def _without_context(wire: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in wire.items() if key != "context"}


def test_refused_calls_name_no_content(deployment: Deployment) -> None:
    """A refusal's message has no part of the value that was refused."""
    wire = {"memories": [{"content": "x", "canary-key": "canary-value"}]}
    answer = deployment.call("MEMORY.WRITE", **wire)
    assert "canary-value" not in json.dumps(answer)
    assert "canary-value" not in deployment.worker.logs()
