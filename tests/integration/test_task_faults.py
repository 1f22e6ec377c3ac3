"""What the caller of a task is told when the state server fails, and that nothing is half-written."""

import json
from collections.abc import Callable, Iterator

import pytest
import redis
from support.polling import eventually
from support.proxies import ReplyCutter, to_socket
from support.workers import CONTEXT_DB, RESULT_TIMEOUT_S, WorkerProcess, client_app

from ditto_tasks.canonical import scope_key
from ditto_tasks.celery import DittoCelery
from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.errors import DittoError, OutcomeUnknown, StateBackendError

SCOPE = {"sessionId": "faults"}
STATE = "ditto:context:" + scope_key(SCOPE)
LOG = f"ditto:context:ops:{{{STATE}}}"
FIRST = {"id": "a", "content": "kept"}
OTHER = {"id": "b", "content": "more"}
AWAY = {"STATE_BACKEND_UNAVAILABLE", "STATE_OUTCOME_UNKNOWN"}


class Faults:
    """A broker, a state server behind a proxy, one worker and a client."""

    def __init__(self, server: EmbeddedServer, state: EmbeddedServer, proxy: ReplyCutter) -> None:
        env = {"DITTO_WORKER_CONTEXT_REDIS_URL": f"redis://127.0.0.1:{proxy.port}/{CONTEXT_DB}"}
        self.worker = WorkerProcess(server, env=env).start()
        self.state_server, self.proxy = state, proxy
        self.app: DittoCelery = client_app(server, **env)
        self.state = redis.Redis.from_url(state.redis_url(CONTEXT_DB))

    def close(self) -> None:
        self.worker.close()
        self.app.close()
        self.state.close()

    def send(
        self, node: str, task_id: str | None = None, *, in_s: float | None = None, **wire: object
    ) -> object:
        """Send one call on the scope; `in_s` seconds from now it is too late."""
        options: dict[str, object] = {}
        if in_s is not None:
            with self.app.coordination.clients() as broker:
                seconds, _ = broker.time()  # type: ignore[attr-defined]  # of redis-py's client
            options = {"deadlineMs": int((seconds + in_s) * 1000)}
        return self.app.send_task(node, kwargs={"scope": SCOPE, "ditto": options, **wire}, task_id=task_id)

    def call(self, node: str, **wire: object) -> dict[str, object]:
        """Send one call and wait for its result."""
        return self.send(node, **wire).get(timeout=RESULT_TIMEOUT_S)  # type: ignore[attr-defined]  # AsyncResult

    def refused(self, node: str, **wire: object) -> DittoError:
        """The error of a call that has to fail."""
        with pytest.raises(DittoError) as caught:
            self.call(node, **wire)
        return caught.value

    def stored(self) -> dict[bytes, bytes | None]:
        """All that the state's database holds, byte by byte."""
        return {key: self.state.dump(key) for key in self.state.keys("*")}

    def stored_ids(self) -> list[str]:
        return [item["id"] for item in json.loads(self.state.get(STATE) or b"")["context"]["items"]]


@pytest.fixture(scope="module")
def running() -> Iterator[Faults]:
    durable = ["--appendfsync", "always"]
    with (
        EmbeddedServer() as server,
        EmbeddedServer(appendonly=True, extra_args=durable) as state,
        ReplyCutter(to_socket(state.socket_path)) as proxy,
    ):
        faults = Faults(server, state, proxy)
        yield faults
        faults.close()


@pytest.fixture
def faults(running: Faults) -> Iterator[Faults]:
    """One item is stored before the test; after it the worker lives and its next task runs."""
    running.state.flushdb()
    running.call("CONTEXT.LOAD", sources=[FIRST])
    yield running
    assert running.worker.alive
    running.state.flushdb()
    assert running.call("CONTEXT.LOAD", sources=[OTHER])["items"] == 1


def test_a_commit_whose_reply_is_cut_succeeds_once(faults: Faults) -> None:
    """The caller gets the receipt of the version that was written, although its reply reached nobody."""
    faults.proxy.cut_reply_to(LOG.encode())
    cuts = faults.proxy.cuts
    receipt = faults.call("CONTEXT.UPDATE", add=[OTHER])
    assert faults.proxy.cuts == cuts + 1
    assert receipt["version"] == json.loads(faults.state.get(STATE) or b"")["version"]
    assert faults.stored_ids() == ["a", "b"]


def test_a_commit_that_never_arrives_is_made_once(faults: Faults) -> None:
    """A call whose commit is lost on its way stays at its place, and is committed when it runs again."""
    faults.proxy.cut_reply_to(LOG.encode(), withhold=True)
    assert faults.call("CONTEXT.UPDATE", add=[OTHER])["items"] == 2
    assert faults.stored_ids() == ["a", "b"]


def test_a_server_that_dies_in_the_commit_and_stays_away(faults: Faults) -> None:
    """The outcome is unknown at the deadline; repeating with the operation id tells it, with one effect."""
    faults.proxy._then = faults.state_server.kill
    faults.proxy.cut_reply_to(LOG.encode())
    pending = faults.send("CONTEXT.UPDATE", "dies-1", in_s=3, add=[OTHER])
    with pytest.raises(DittoError) as caught:
        pending.get(timeout=RESULT_TIMEOUT_S)  # type: ignore[attr-defined]  # AsyncResult
    faults.proxy._then = lambda: None
    faults.state_server.start()
    assert isinstance(caught.value, OutcomeUnknown)
    assert "same operation id is safe" in caught.value.message
    eventually(lambda: faults.call("CONTEXT.SELECT", purpose="infer"), RESULT_TIMEOUT_S)
    repeated = faults.app.send_task(
        "CONTEXT.UPDATE", kwargs={"scope": SCOPE, "add": [OTHER], "ditto": {"operationId": "dies-1"}}
    ).get(timeout=RESULT_TIMEOUT_S)
    assert repeated["replayed"] is True
    assert faults.stored_ids() == ["a", "b"]


def test_without_a_state_server_reads_fail_and_mutations_wait_until_their_deadline(faults: Faults) -> None:
    """Each ends with a typed error that names neither host nor port, and leaves no trace."""
    before = faults.stored()
    faults.state_server.kill()
    faults.proxy.cut_all()
    errors = [faults.refused("CONTEXT.LOAD"), faults.refused("CONTEXT.SELECT", purpose="infer")]
    assert [type(error) for error in errors] == [StateBackendError] * 2
    errors.append(faults.refused("CONTEXT.UPDATE", in_s=2, add=[OTHER]))
    faults.state_server.start()
    assert {error.code for error in errors} <= AWAY
    assert not [error for error in errors if str(faults.proxy.port) in str(error) or "127" in str(error)]
    assert faults.stored() == before


def test_a_full_state_server_refuses(faults: Faults) -> None:
    """STATE_BACKEND_FULL, the state and its log byte for byte as before, and reads go on."""
    before = faults.stored()
    faults.state.config_set("maxmemory", "1")
    errors = [faults.refused("CONTEXT.UPDATE", add=[OTHER]), faults.refused("CONTEXT.COMPRESS", maxItems=0)]
    errors.append(faults.refused("CONTEXT.LOAD", sources=[OTHER]))
    assert faults.call("CONTEXT.LOAD") == {"items": [FIRST]}
    faults.state.config_set("maxmemory", "0")
    assert [(type(error), error.code) for error in errors] == [(StateBackendError, "STATE_BACKEND_FULL")] * 3
    assert faults.stored() == before


CALLS: dict[str, dict[str, object]] = {
    "CONTEXT.LOAD": {},
    "CONTEXT.SELECT": {"purpose": "infer"},
    "CONTEXT.UPDATE": {"add": [OTHER]},
    "CONTEXT.COMPRESS": {"maxItems": 0},
}


def of_another_type(state: "redis.Redis") -> None:
    state.delete(STATE)
    state.rpush(STATE, "x")
    state.expire(STATE, 60)


def corrupt(raw: bytes) -> Callable[["redis.Redis"], None]:
    return lambda state: state.set(STATE, raw, px=60_000) and None


@pytest.mark.parametrize(
    ("spoil", "kind", "code"),
    [
        (of_another_type, "StateBackendError", "STATE_BACKEND_REFUSED"),
        (corrupt(b"{not json"), "ContextError", "INVALID_STATE"),
        (corrupt(b""), "ContextError", "INVALID_STATE"),
        (corrupt(b"[" * 5_000), "ContextError", "INVALID_STATE"),
        (corrupt(b'{"version":"v","context":{"items":[{}]}}'), "ContextError", "INVALID_STATE"),
    ],
    ids=["another type", "no JSON", "empty", "deep", "no item"],
)
def test_a_spoilt_state_is_refused_and_kept(
    faults: Faults, spoil: Callable[["redis.Redis"], None], kind: str, code: str
) -> None:
    """All four nodes raise the specified error, and what is stored stays as it is, log included."""
    spoil(faults.state)
    before = faults.stored()
    for node, wire in CALLS.items():
        error = faults.refused(node, **wire)
        assert (type(error).__name__, error.code) == (kind, code), node
    assert faults.stored() == before


def test_a_spoilt_log_is_refused_and_kept(faults: Faults) -> None:
    """A list in place of the operation log fails mutations only, and nothing is written."""
    faults.state.delete(LOG)
    faults.state.rpush(LOG, "x")
    faults.state.expire(LOG, 60)
    before = faults.state.dump(STATE), faults.state.dump(LOG)
    for node in ("CONTEXT.UPDATE", "CONTEXT.COMPRESS"):
        assert faults.refused(node, **CALLS[node]).code == "STATE_BACKEND_REFUSED"
    assert faults.call("CONTEXT.LOAD") == {"items": [FIRST]}
    assert (faults.state.dump(STATE), faults.state.dump(LOG)) == before
