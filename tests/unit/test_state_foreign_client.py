"""The store on a client of another library: only `get` and `eval`, whole scripts, text arguments."""

import json
from collections.abc import Sequence

import pytest
from support.states import HASH, SCOPE, context_of, operation, refused

from ditto_tasks.canonical import scope_key
from ditto_tasks.errors import ContextError, OutcomeUnknown
from ditto_tasks.state.redis import RedisContextStore


class FakeClient:
    """The rule of the script in Python, on a dict; `answer` replaces the script's reply."""

    def __init__(self, answer: object = None, *, as_text: bool = True) -> None:
        self.values: dict[str, str] = {}
        self.calls: list[tuple[Sequence[str], Sequence[str]]] = []
        self._answer = answer
        self._as_text = as_text

    def get(self, key: str) -> str | bytes | None:
        value = self.values.get(key)
        return value if value is None or self._as_text else value.encode()

    def eval(self, script: str, keys: list[str], args: list[str]) -> object:
        assert "KEYS[1]" in script
        self.calls.append((keys, args))
        if self._answer is not None:
            return self._answer
        stored = self.values.get(keys[0])
        if (json.loads(stored)["version"] if stored else "") != args[0]:
            return 0
        self.values[keys[0]] = args[1]
        return 1


@pytest.mark.parametrize("as_text", [True, False])
def test_get_and_eval_are_enough(as_text: bool) -> None:
    """A client that offers no more, and decodes replies or not, holds states."""
    store = RedisContextStore(FakeClient(as_text=as_text))
    first = store.compare_and_set(SCOPE, None, context_of("é"))
    second = store.compare_and_set(SCOPE, first.version, context_of("b"))
    assert store.get(SCOPE) == second
    refused(lambda: store.compare_and_set(SCOPE, first.version, context_of("c")), "STATE_CONFLICT")


def test_the_script_gets_one_key_and_three_texts() -> None:
    """Key and arguments are those of the other runtime: expected version or "", value, ttl."""
    client = FakeClient()
    store = RedisContextStore(client, ttl_ms=5_000, key_prefix="p:")
    first = store.compare_and_set(SCOPE, None, context_of("a"))
    store.compare_and_set(SCOPE, first.version, context_of("b"))
    (keys, created), (_, replaced) = client.calls
    assert keys == [f"p:{scope_key(SCOPE)}"]
    assert list(json.loads(created[1])) == ["version", "context", "scope"]
    assert [created[0], created[2], replaced[0], replaced[2]] == ["", "5000", first.version, "5000"]


@pytest.mark.parametrize("answer", [2, True, "1", b"1", 1.0, -1, [], [1]], ids=repr)
def test_any_other_reply_is_invalid_state(answer: object) -> None:
    """Only the numbers 0 and 1 are replies of the script."""
    store = RedisContextStore(FakeClient(answer))
    refused(lambda: store.compare_and_set(SCOPE, None, context_of("a")), "INVALID_STATE")


@pytest.mark.parametrize("prefix", ["", None, 7, "a{b", "a}b"], ids=repr)
def test_a_bad_key_prefix_is_refused(prefix: object) -> None:
    """A key prefix is a nonempty string; braces would part a state from its operation log in a cluster."""
    refused(lambda: RedisContextStore(FakeClient(), key_prefix=prefix), "INVALID_INPUT")


@pytest.mark.parametrize("kept", [0, 10_001, True, "1"], ids=repr)
def test_a_bad_number_of_operations_is_refused(kept: object) -> None:
    """operation_ids is a whole number from 1 to 10,000."""
    refused(lambda: RedisContextStore(FakeClient(), operation_ids=kept), "INVALID_INPUT")


class BrokenClient(FakeClient):
    """A client whose scripts always raise its own error."""

    def eval(self, script: str, keys: list[str], args: list[str]) -> object:
        raise LookupError("the library's own error", script, keys, args)


def test_a_foreign_clients_errors_pass_through_the_plain_port() -> None:
    """What the client raises reaches the caller of compare_and_set unchanged."""
    with pytest.raises(LookupError, match="own error"):
        RedisContextStore(BrokenClient()).compare_and_set(SCOPE, None, context_of("a"))


def test_a_foreign_clients_error_in_a_commit_is_an_unknown_outcome() -> None:
    """Of an unknown library's error nobody can say whether the commit was applied."""
    store = RedisContextStore(BrokenClient(), settle_ms=1)
    with pytest.raises(OutcomeUnknown):
        store.commit(SCOPE, operation("1"), expected_version=None, next=context_of("a"))


def test_an_unknown_reply_of_a_log_script_is_invalid_state() -> None:
    """A reply that no script gives is INVALID_STATE, and not taken for success."""
    for answer in ("written", [b"x", b"", b""], [1], 0, True, [b"conflict", b"", b""]):
        store = RedisContextStore(FakeClient(answer))
        with pytest.raises(ContextError) as caught:
            store.refuse(SCOPE, operation("1", input_hash=HASH), code="X")
        assert caught.value.code == "INVALID_STATE"
