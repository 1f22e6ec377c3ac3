"""The four CONTEXT nodes as tasks of a real worker, on explicit contexts and on stored ones."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from support.polling import eventually
from support.workers import Deployment

from ditto_tasks.canonical import scope_key
from ditto_tasks.errors import Cancelled, ContextError, DittoError

HELLO = {"id": "hello", "content": "hello world"}
BYE = {"id": "bye", "content": "good bye"}


@pytest.fixture(scope="module")
def deployment() -> Iterator[Deployment]:
    with Deployment() as running:
        yield running


@pytest.fixture
def scope() -> dict[str, str]:
    return {"sessionId": str(uuid.uuid4())}


def stored(deployment: Deployment, scope: dict[str, str]) -> bytes | None:
    value = deployment.state.get("ditto:context:" + scope_key(scope))
    assert value is None or isinstance(value, bytes)
    return value


def refused(deployment: Deployment, node: str, **call: Any) -> DittoError:
    with pytest.raises(DittoError) as caught:
        deployment.call(node, **call)
    return caught.value


def test_explicit_calls_return_what_the_nodes_return_in_process(deployment: Deployment) -> None:
    """LOAD, UPDATE, SELECT and COMPRESS of an explicit context answer with a Context or a selection."""
    context = deployment.call("CONTEXT.LOAD", sources=[HELLO])
    assert context == {"items": [HELLO]}
    assert deployment.call("CONTEXT.UPDATE", context=context, add=[BYE]) == {"items": [HELLO, BYE]}
    selection = deployment.call("CONTEXT.SELECT", context=context, purpose="infer", query="hello")
    assert selection == {"purpose": "infer", "context": context, "selectedItemIds": ["hello"]}
    assert deployment.call("CONTEXT.COMPRESS", context={"items": [HELLO, BYE]}, maxItems=1) == {
        "items": [BYE]
    }


def test_scoped_mutations_answer_with_a_receipt(deployment: Deployment, scope: dict[str, str]) -> None:
    """A receipt names scope, version, sizes and the operation, which is the task id by default."""
    receipt = deployment.call(
        "CONTEXT.LOAD", task_id=f"load-{scope['sessionId']}", scope=scope, sources=[HELLO]
    )
    version = receipt.pop("version")
    assert receipt == {
        "scope": scope,
        "items": 1,
        "tokens": 4,
        "operationId": f"load-{scope['sessionId']}",
        "replayed": False,
    }
    assert (stored(deployment, scope) or b"").startswith(b'{"version":"%s"' % version.encode())


def test_all_four_nodes_work_on_stored_state(deployment: Deployment, scope: dict[str, str]) -> None:
    """LOAD, UPDATE and COMPRESS write the scope's state; LOAD of a scope and SELECT read it."""
    first = deployment.call("CONTEXT.LOAD", scope=scope, sources=[HELLO])["version"]
    second = deployment.call("CONTEXT.UPDATE", scope=scope, add=[BYE], expectedVersion=first)["version"]
    assert second != first
    assert deployment.call("CONTEXT.LOAD", scope=scope) == {"items": [HELLO, BYE]}
    assert deployment.call("CONTEXT.SELECT", scope=scope, purpose="infer", limit=1)["selectedItemIds"] == [
        "bye"
    ]
    assert deployment.call("CONTEXT.COMPRESS", scope=scope, maxItems=1)["items"] == 1
    assert deployment.call("CONTEXT.LOAD", scope=scope) == {"items": [BYE]}


def test_reads_with_a_receipt_name_the_version(deployment: Deployment, scope: dict[str, str]) -> None:
    """The option reply=receipt adds the version to what LOAD {scope} and SELECT return."""
    version = deployment.call("CONTEXT.LOAD", scope=scope, sources=[HELLO])["version"]
    loaded = deployment.call("CONTEXT.LOAD", options={"reply": "receipt"}, scope=scope)
    assert loaded == {
        "scope": scope,
        "version": version,
        "items": 1,
        "tokens": 4,
        "context": {"items": [HELLO]},
    }
    selected = deployment.call("CONTEXT.SELECT", options={"reply": "receipt"}, scope=scope, purpose="infer")
    assert (selected["version"], selected["selection"]["selectedItemIds"]) == (version, ["hello"])


def test_session_reads_wait_behind_the_scopes_mutations(
    deployment: Deployment, scope: dict[str, str]
) -> None:
    """A read with consistency=session sees the mutation that was sent just before it."""
    deployment.call("CONTEXT.LOAD", scope=scope, sources=[HELLO])
    deployment.send("CONTEXT.UPDATE", scope=scope, add=[BYE])
    read = deployment.call("CONTEXT.LOAD", options={"consistency": "session"}, scope=scope)
    assert read == {"items": [HELLO, BYE]}


def test_a_repeat_makes_no_context_of_nothing(deployment: Deployment, scope: dict[str, str]) -> None:
    """An UPDATE that made a context, repeated after that has gone, answers null and no empty context."""
    options = {"onMissing": "create", "reply": "context", "operationId": "made"}
    made = deployment.call("CONTEXT.UPDATE", options=options, scope=scope, add=[HELLO])
    assert made == {"items": [HELLO]}
    deployment.state.delete(f"ditto:context:{scope_key(scope)}")
    assert deployment.call("CONTEXT.UPDATE", options=options, scope=scope, add=[HELLO]) is None


def test_reply_context_and_none(deployment: Deployment, scope: dict[str, str]) -> None:
    """reply=context gives the new state, kept five minutes only; reply=none gives nothing."""
    sent = deployment.send("CONTEXT.LOAD", options={"reply": "context"}, scope=scope, sources=[HELLO])
    assert sent.get(timeout=10) == {"items": [HELLO]}
    eventually(lambda: 0 < deployment.app.backend.client.ttl(f"celery-task-meta-{sent.id}") <= 300)
    assert deployment.call("CONTEXT.UPDATE", options={"reply": "none"}, scope=scope, add=[BYE]) is None


def test_a_repeated_operation_has_one_effect(deployment: Deployment, scope: dict[str, str]) -> None:
    """The same operation id answers with the first call's version and writes nothing."""
    deployment.call("CONTEXT.LOAD", scope=scope, sources=[])
    add = {"options": {"operationId": "once"}, "scope": scope, "add": [HELLO]}
    first = deployment.call("CONTEXT.UPDATE", **add)
    before = stored(deployment, scope)
    again = deployment.call("CONTEXT.UPDATE", **add)
    assert again == {**first, "replayed": True}
    assert stored(deployment, scope) == before


def test_256_operations_are_remembered_under_the_default_settings(
    deployment: Deployment, scope: dict[str, str]
) -> None:
    """The first of 256 operations is recognised after the 255 others, although operationIds is 32."""
    assert deployment.app.settings.context.cache.operation_ids == 32
    first = deployment.call("CONTEXT.LOAD", options={"operationId": "0"}, scope=scope, sources=[HELLO])
    others = [
        deployment.send("CONTEXT.UPDATE", options={"operationId": str(number)}, scope=scope)
        for number in range(1, 256)
    ]
    assert others[-1].get(timeout=60)["replayed"] is False
    again = deployment.call("CONTEXT.LOAD", options={"operationId": "0"}, scope=scope, sources=[HELLO])
    assert (again["version"], again["replayed"]) == (first["version"], True)


def test_a_repeated_operation_with_other_input_is_a_mismatch(
    deployment: Deployment, scope: dict[str, str]
) -> None:
    """OPERATION_MISMATCH, and the state stays."""
    deployment.call("CONTEXT.LOAD", options={"operationId": "once"}, scope=scope, sources=[HELLO])
    before = stored(deployment, scope)
    error = refused(deployment, "CONTEXT.LOAD", options={"operationId": "once"}, scope=scope, sources=[BYE])
    assert (type(error), error.code) == (ContextError, "OPERATION_MISMATCH")
    assert stored(deployment, scope) == before


def test_a_recorded_refusal_is_met_again(deployment: Deployment, scope: dict[str, str]) -> None:
    """A refused operation stays refused under its id, also when it would succeed by now."""
    update = {"options": {"operationId": "early"}, "scope": scope, "add": [HELLO]}
    assert refused(deployment, "CONTEXT.UPDATE", **update).code == "CONTEXT_NOT_FOUND"
    deployment.call("CONTEXT.LOAD", scope=scope, sources=[])
    assert refused(deployment, "CONTEXT.UPDATE", **update).code == "CONTEXT_NOT_FOUND"
    assert deployment.call("CONTEXT.LOAD", scope=scope) == {"items": []}


def test_a_conflict_is_typed_and_names_the_current_version(
    deployment: Deployment, scope: dict[str, str]
) -> None:
    """STATE_CONFLICT reaches the client as a ContextError with details.current_version."""
    version = deployment.call("CONTEXT.LOAD", scope=scope, sources=[HELLO])["version"]
    error = refused(deployment, "CONTEXT.UPDATE", scope=scope, add=[BYE], expectedVersion="other")
    assert (type(error), error.code, error.details) == (
        ContextError,
        "STATE_CONFLICT",
        {"current_version": version},
    )


def test_load_if_absent_keeps_what_is_there(deployment: Deployment, scope: dict[str, str]) -> None:
    """ifAbsent loads once; a second LOAD answers with the stored version and writes nothing."""
    load = {"options": {"ifAbsent": True}, "scope": scope}
    first = deployment.call("CONTEXT.LOAD", **load, sources=[HELLO])
    second = deployment.call("CONTEXT.LOAD", **load, sources=[BYE])
    assert (second["version"], second["items"]) == (first["version"], 1)
    assert deployment.call("CONTEXT.LOAD", scope=scope) == {"items": [HELLO]}


def test_update_creates_a_missing_state_only_if_told(deployment: Deployment, scope: dict[str, str]) -> None:
    """Without onMissing=create an UPDATE of nothing is CONTEXT_NOT_FOUND."""
    assert refused(deployment, "CONTEXT.UPDATE", scope=scope, add=[HELLO]).code == "CONTEXT_NOT_FOUND"
    assert stored(deployment, scope) is None
    deployment.call("CONTEXT.UPDATE", options={"onMissing": "create"}, scope=scope, add=[HELLO])
    assert deployment.call("CONTEXT.LOAD", scope=scope) == {"items": [HELLO]}


def test_a_call_past_its_deadline_does_nothing(deployment: Deployment, scope: dict[str, str]) -> None:
    """The deadline is compared with the server's clock before anything is done."""
    error = refused(deployment, "CONTEXT.LOAD", options={"deadlineMs": 1}, scope=scope, sources=[HELLO])
    assert (type(error), error.code) == (Cancelled, "TIMEOUT")
    assert stored(deployment, scope) is None


def test_a_committed_mutation_is_never_reported_as_late(
    deployment: Deployment, scope: dict[str, str]
) -> None:
    """A second delivery after the deadline answers with the receipt of the first."""
    deployment.call("CONTEXT.LOAD", options={"operationId": "x"}, scope=scope, sources=[HELLO])
    late = {"operationId": "x", "deadlineMs": 1}
    assert deployment.call("CONTEXT.LOAD", options=late, scope=scope, sources=[HELLO])["replayed"] is True


def test_a_cancelled_call_does_nothing(deployment: Deployment, scope: dict[str, str]) -> None:
    """A task whose cancel key is set before it runs fails as CANCELLED and writes nothing."""
    task_id = str(uuid.uuid4())
    deployment.app.coordination.cancel(task_id)
    error = refused(deployment, "CONTEXT.LOAD", task_id=task_id, scope=scope, sources=[HELLO])
    assert (type(error), error.code) == (Cancelled, "CANCELLED")
    assert stored(deployment, scope) is None


@pytest.mark.parametrize(
    "options",
    [
        {"reply": "all"},
        {"unknown": 1},
        {"deadlineMs": "soon"},
        {"deadlineMs": True},
        {"onMissing": "create"},
        {"operationId": ""},
        {"ifAbsent": 1},
        {"bind": "nothing"},
    ],
)
def test_bad_options_are_invalid_input(
    deployment: Deployment, scope: dict[str, str], options: dict[str, object]
) -> None:
    """An unknown option, a wrong value, or an option of another node changes nothing."""
    error = refused(deployment, "CONTEXT.LOAD", options=options, scope=scope, sources=[HELLO])
    assert (type(error), error.code) == (ContextError, "INVALID_INPUT")
    assert stored(deployment, scope) is None
