"""Sharing states with another runtime: its records are read and updated here, its script works on ours."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis
from support.states import SCOPE, committing, context_of, ids_of, operation, refused

from ditto_tasks.context.models import Context
from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.models import to_wire
from ditto_tasks.state.encoding import state_key
from ditto_tasks.state.redis import RedisContextStore, StateClient, open_state_client

FIXTURES = Path(__file__).parents[1] / "fixtures"
REFERENCE = (FIXTURES / "reference_compare_and_set.lua").read_text("utf-8")
KEY = state_key(SCOPE)
OTHER_VERSION = "00000000-0000-4000-8000-000000000000"


@dataclass(frozen=True)
class ForeignState:
    """A record as another runtime may have written it, and what it says."""

    name: str
    version: str
    ids: list[str]
    record: str

    @property
    def raw(self) -> bytes:
        return self.record.encode()


RECORDS = (FIXTURES / "foreign_states.jsonl").read_text("utf-8").splitlines()
FOREIGN = [ForeignState(**json.loads(line)) for line in RECORDS]


@pytest.fixture
def client(server: EmbeddedServer) -> Iterator[StateClient]:
    """A client as a worker has it."""
    opened = open_state_client(server.redis_url(2))
    yield opened
    opened.close()


@pytest.fixture(params=FOREIGN, ids=lambda state: state.name)
def foreign(request: pytest.FixtureRequest, client: StateClient) -> ForeignState:
    """Each record in turn, stored as its writer stores it."""
    state: ForeignState = request.param
    client.set(KEY, state.raw, px=60_000)
    return state


def test_foreign_records_are_read(client: StateClient, foreign: ForeignState) -> None:
    """A foreign record has its own version and its items in order, with their content."""
    stored = RedisContextStore(client).get(SCOPE)
    assert stored is not None
    assert (stored.version, ids_of(stored.context)) == (foreign.version, foreign.ids)
    wire = json.loads(foreign.record)["context"]
    assert to_wire(stored.context) == {"items": wire["items"]}


def test_foreign_records_are_updated(client: StateClient, foreign: ForeignState) -> None:
    """A write that names a foreign record's version replaces it, and the next write finds our own layout."""
    store = RedisContextStore(client)
    first = store.compare_and_set(SCOPE, foreign.version, context_of("ours"))
    assert (client.get(KEY) or b"").startswith(b'{"version":"' + first.version.encode() + b'","context":{')
    assert store.get(SCOPE) == first
    assert store.compare_and_set(SCOPE, first.version, context_of("again")).version != first.version


def test_foreign_records_are_updated_by_operations(client: StateClient, foreign: ForeignState) -> None:
    """A commit that names a foreign record's version writes once and is a replay the second time."""
    commit = committing(RedisContextStore(client), "1", foreign.version, "ours")
    first, again = commit(), commit()
    assert (again.version, again.replayed) == (first.version, True)


def test_another_version_of_a_foreign_record_conflicts(client: StateClient, foreign: ForeignState) -> None:
    """A write that names another version, or none, is a conflict that names the foreign one."""
    store = RedisContextStore(client)
    for expected in (OTHER_VERSION, foreign.version + "x", None):
        error = refused(
            lambda expected=expected: store.compare_and_set(SCOPE, expected, context_of("x")),
            "STATE_CONFLICT",
        )
        assert error.details == {"current_version": foreign.version}
        refused(committing(store, "1", expected, "x"), "STATE_CONFLICT")
    assert client.get(KEY) == foreign.raw


def test_a_foreign_write_between_read_and_write_is_noticed(client: StateClient) -> None:
    """A foreign record that changes after its bytes were read is not overwritten, even under its version."""
    record = b'{"context":{"items":[]},"version":"v"}'
    client.set(KEY, record, px=60_000)
    store = RedisContextStore(_ChangingClient(client))
    refused(lambda: store.compare_and_set(SCOPE, "v", context_of("x")), "STATE_CONFLICT")
    refused(committing(store, "1", "v", "x"), "STATE_CONFLICT")
    assert (client.get(KEY) or b"").startswith(record + b" ")


class _ChangingClient:
    """A client of another library, beside which a foreign writer extends the record after each read."""

    def __init__(self, client: StateClient) -> None:
        self._client = client

    def get(self, key: str) -> bytes | None:
        value = self._client.get(key)
        self._client.set(key, (value or b"") + b" ", px=60_000)
        return value

    def eval(self, script: str, keys: list[str], args: list[str]) -> object:
        return self._client.eval(script, len(keys), *keys, *args)


CONTENTS = ["text", "lone \ud800", {"\udfff": 1e21}, 2**70, None, [[[]]], "你好\x00\u2028"]


@pytest.mark.parametrize("content", CONTENTS, ids=repr)
@pytest.mark.parametrize("written", ["compare_and_set", "commit"])
def test_their_script_judges_our_records_as_its_own(
    client: StateClient, content: object, written: str
) -> None:
    """Their script answers alike for our record and for the record that they would have written.

    It decodes with cjson, which fails on lone surrogates whoever wrote them: then nothing changes.
    """
    context = context_of("a", content=content)
    version = _write(RedisContextStore(client), written, context)
    ours = client.get(KEY) or b""
    theirs = json.dumps({"version": version, "context": to_wire(context)}, separators=(",", ":")).encode()
    for expected in ("", version, OTHER_VERSION):
        answers = [_judge(client, raw, expected) for raw in (ours, theirs)]
        assert answers[0] == answers[1]
        undecodable = b"\\ud" in ours
        assert answers[0] == ("cjson fails" if undecodable and expected else int(expected == version))


def test_their_script_creates_only_what_is_absent(client: StateClient) -> None:
    """On an absent record their script writes for "" and refuses a version; our store sees what it wrote."""
    assert client.eval(REFERENCE, 1, KEY, OTHER_VERSION, "x", "60000") == 0
    record = '{"version":"theirs","context":{"items":[]}}'
    assert client.eval(REFERENCE, 1, KEY, "", record, "60000") == 1
    stored = RedisContextStore(client).get(SCOPE)
    assert stored is not None
    assert stored.version == "theirs"


def _write(store: RedisContextStore, how: str, context: Context) -> str | None:
    if how == "compare_and_set":
        return store.compare_and_set(SCOPE, None, context).version
    return store.commit(SCOPE, operation("1"), expected_version=None, next=context).version


def _judge(client: StateClient, raw: bytes, expected: str) -> object:
    client.set(KEY, raw, px=60_000)
    try:
        answer = client.eval(REFERENCE, 1, KEY, expected, "new", "60000")
    except redis.ResponseError:
        answer = "cjson fails"
    assert client.get(KEY) == (b"new" if answer == 1 else raw)
    return answer


def test_our_record_has_exactly_the_specified_bytes(client: StateClient) -> None:
    """Version, context, scope, in that order, without spaces, raw UTF-8, lone surrogates escaped."""
    written = RedisContextStore(client).compare_and_set(SCOPE, None, context_of("é", content="\ud800😀"))
    expected = (
        '{"version":"%s","context":{"items":[{"id":"é","content":"\\ud800😀"}]},"scope":{"sessionId":"s"}}'
    )
    assert client.get(KEY) == (expected % written.version).encode()
