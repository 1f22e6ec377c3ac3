"""The effect ledger over its Redis records: at most once, whoever asks, and whatever became of the first."""

import threading
from collections.abc import Iterator

import pytest
import redis
from support.polling import eventually

from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.errors import Cancelled, InteractionError, StateBackendError
from ditto_tasks.interaction.base import EffectKey, EffectUnknownError
from ditto_tasks.interaction.ledger import EffectLedger, digest_of
from ditto_tasks.interaction.stores.redis import RedisEffectStore
from ditto_tasks.json_values import JsonValue
from ditto_tasks.models import CancelToken
from ditto_tasks.state.redis import open_state_client

LEASE_MS = 300
KEY = EffectKey(owner="", step="s", position=0)


@pytest.fixture
def client(server: EmbeddedServer) -> Iterator["redis.Redis"]:
    opened = open_state_client(server.redis_url(0))
    yield opened
    opened.close()


@pytest.fixture
def store(client: "redis.Redis") -> RedisEffectStore:
    return RedisEffectStore(client, deployment="t", lease_ms=LEASE_MS, ttl_ms=60_000)


@pytest.fixture
def ledger(store: RedisEffectStore) -> EffectLedger:
    return EffectLedger(store, lease_ms=LEASE_MS)


class Effect:
    """Counts how often it happened."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> JsonValue:
        self.times += 1
        return {"time": self.times, "odd": "\ud800", "big": 2**70}


def once(ledger: EffectLedger, effect: Effect, inputs: JsonValue = None, **fields: object) -> JsonValue:
    given = {"key": KEY, "inputs": inputs, "effect": effect, "token": CancelToken()} | fields
    return ledger.once(**given)  # type: ignore[arg-type]  # each caller gives what the ledger takes


def test_second_delivery_gets_the_recorded_result(ledger: EffectLedger) -> None:
    """A settled effect is not run again; its result comes back as it was."""
    effect = Effect()
    assert once(ledger, effect) == once(ledger, effect) == {"time": 1, "odd": "\ud800", "big": 2**70}
    assert effect.times == 1


def test_other_inputs_are_refused(ledger: EffectLedger) -> None:
    """The same step with other inputs is a CONFLICT, and nothing is run."""
    effect = Effect()
    once(ledger, effect, {"a": 1, "b": 2})
    assert once(ledger, effect, {"b": 2, "a": 1.0}) == {"time": 1, "odd": "\ud800", "big": 2**70}
    with pytest.raises(InteractionError, match="CONFLICT"):
        once(ledger, effect, {"a": 2})
    assert effect.times == 1


@pytest.mark.parametrize("other", [("o", "s", 0), ("", "s", 1), ("", "t", 0)])
def test_effects_are_told_apart(ledger: EffectLedger, other: tuple[str, str, int]) -> None:
    """Another owner, step or position is another effect."""
    effect, (owner, step, position) = Effect(), other
    once(ledger, effect)
    once(ledger, effect, key=EffectKey(owner=owner, step=step, position=position))
    assert effect.times == 2


def test_waits_for_the_first_delivery(ledger: EffectLedger, store: RedisEffectStore) -> None:
    """A second delivery waits, past several leases, while the first still runs, and returns the same."""
    began, go_on, effect = threading.Event(), threading.Event(), Effect()
    results: list[JsonValue] = []

    def slow() -> JsonValue:
        began.set()
        assert go_on.wait(20)
        return effect()

    first = threading.Thread(target=lambda: results.append(once(ledger, slow)))  # type: ignore[arg-type]  # counts too
    first.start()
    assert began.wait(20)
    second = threading.Thread(target=lambda: results.append(once(ledger, effect)))
    second.start()
    second.join(3 * LEASE_MS / 1000)
    assert second.is_alive()
    go_on.set()
    first.join(20)
    second.join(20)
    assert effect.times == 1
    assert results[0] == results[1]


def test_lapsed_execution_is_unknown(ledger: EffectLedger, store: RedisEffectStore) -> None:
    """An executor that died while executing leaves an unknown outcome, which is never run again."""
    effect = Effect()
    assert store.claim(KEY, digest=digest_of(None), holder="dead", repeat=False).state == "claimed"
    assert store.execute(KEY, holder="dead")
    for _ in range(2):
        with pytest.raises(EffectUnknownError, match="OUTCOME_UNKNOWN"):
            once(ledger, effect)
    assert effect.times == 0


def test_lapsed_claim_is_taken_over(ledger: EffectLedger, store: RedisEffectStore) -> None:
    """An executor that died before executing did nothing, so the next delivery runs the effect."""
    effect = Effect()
    store.claim(KEY, digest=digest_of(None), holder="dead", repeat=False)
    once(ledger, effect)
    assert effect.times == 1
    assert not store.execute(KEY, holder="dead")


def test_unknown_effect_is_repeated_where_wanted(ledger: EffectLedger, store: RedisEffectStore) -> None:
    """With onUnknown repeat an effect of unknown outcome runs once more, and settles."""
    effect = Effect()
    store.claim(KEY, digest=digest_of(None), holder="dead", repeat=False)
    store.execute(KEY, holder="dead")
    once(ledger, effect, repeat_unknown=True)
    once(ledger, effect)
    assert effect.times == 1
    assert store.settle(KEY, holder="dead", result=b"1") == "lost"


def test_late_settlement_is_recorded_as_such(
    ledger: EffectLedger, store: RedisEffectStore, client: "redis.Redis"
) -> None:
    """A result that comes after its effect was given up is kept, marked late, and returned from then on."""
    effect = Effect()
    store.claim(KEY, digest=digest_of(None), holder="slow", repeat=False)
    store.execute(KEY, holder="slow")
    with pytest.raises(EffectUnknownError):
        once(ledger, effect)
    assert store.settle(KEY, holder="slow", result=b'"at last"') == "late"
    assert once(ledger, effect) == "at last"
    (name,) = client.keys("ditto:t:effect:*")
    assert client.hget(name, "late") == b"1"
    assert effect.times == 0


def test_repeated_operations_change_nothing(store: RedisEffectStore) -> None:
    """Each operation may be repeated by its holder, as after a lost reply."""
    for _ in range(2):
        assert store.claim(KEY, digest="d", holder="h", repeat=False).state == "claimed"
    for _ in range(2):
        assert store.execute(KEY, holder="h")
        assert store.renew(KEY, holder="h")
    for _ in range(2):
        assert store.settle(KEY, holder="h", result=b"1") == "settled"
    assert store.settle(KEY, holder="h", result=b"2") == "settled"
    assert store.claim(KEY, digest="d", holder="x", repeat=False).result == b"1"


def test_failed_effect_is_not_settled(ledger: EffectLedger) -> None:
    """An effect that raises leaves an unknown outcome: it may have happened."""

    def broken() -> JsonValue:
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError):
        once(ledger, broken)  # type: ignore[arg-type]  # it never returns
    with pytest.raises(EffectUnknownError):
        once(ledger, Effect())


def test_cancelled_waiting(ledger: EffectLedger, store: RedisEffectStore) -> None:
    """A waiting delivery that is cancelled stops waiting, and runs nothing."""
    store.claim(KEY, digest=digest_of(None), holder="other", repeat=False)
    store.execute(KEY, holder="other")
    token, effect = CancelToken(), Effect()
    token.cancel()
    with pytest.raises(Cancelled):
        once(ledger, effect, token=token)
    assert effect.times == 0


def refuse() -> None:
    raise Cancelled


def test_what_is_settled_is_answered_to_a_stopped_call(ledger: EffectLedger) -> None:
    """Neither a cancelled token nor a refused admission hides a recorded result."""
    token, effect = CancelToken(), Effect()
    first = once(ledger, effect)
    token.cancel()
    assert once(ledger, effect, token=token, admit=refuse) == first


def test_a_refused_effect_leaves_no_trace(ledger: EffectLedger, client: "redis.Redis") -> None:
    """An effect that is not admitted is not run, and its record is gone: other inputs may take its place."""
    token, effect = CancelToken(), Effect()
    token.cancel()
    for stop in ({"token": token}, {"admit": refuse}):
        with pytest.raises(Cancelled):
            once(ledger, effect, {"a": 1}, **stop)
        assert client.keys("ditto:t:effect:*") == []
    assert once(ledger, effect, {"a": 2})
    assert effect.times == 1


def test_a_refused_repeat_leaves_the_outcome_unknown(ledger: EffectLedger, store: RedisEffectStore) -> None:
    """A repeat that is not admitted, or dies before it begins, makes nobody take the first for undone."""
    effect = Effect()
    store.claim(KEY, digest=digest_of(None), holder="dead", repeat=False)
    store.execute(KEY, holder="dead")
    with pytest.raises(Cancelled):
        once(ledger, effect, repeat_unknown=True, admit=refuse)
    with pytest.raises(EffectUnknownError):
        once(ledger, effect)
    assert store.claim(KEY, digest=digest_of(None), holder="dies too", repeat=True).state == "claimed"
    with pytest.raises(EffectUnknownError):
        once(ledger, effect)
    assert effect.times == 0
    once(ledger, effect, repeat_unknown=True)
    assert effect.times == 1


def test_a_begun_effect_is_not_released(store: RedisEffectStore) -> None:
    """Only the holder of a claim can give it back, and not once the effect was begun."""
    store.claim(KEY, digest="d", holder="h", repeat=False)
    assert not store.release(KEY, holder="other")
    assert store.execute(KEY, holder="h")
    assert not store.release(KEY, holder="h")
    assert store.settle(KEY, holder="h", result=b"1") == "settled"
    assert not store.release(KEY, holder="h")


def test_scripts_go_over_the_wire_once(ledger: EffectLedger, client: "redis.Redis") -> None:
    """Each is sent whole when the server first needs it, also after it forgot them, and by its hash after."""
    client.script_flush()

    def evals() -> int:
        return int(client.info("commandstats").get("cmdstat_eval", {}).get("calls", 0))

    before = evals()
    for position in range(5):
        once(ledger, Effect(), key=EffectKey(owner="", step="s", position=position))
    assert evals() - before == 3
    client.script_flush()
    once(ledger, Effect(), key=EffectKey(owner="", step="s", position=9))
    assert evals() - before == 6


def test_records_expire(ledger: EffectLedger, client: "redis.Redis") -> None:
    """Every record has a TTL."""
    once(ledger, Effect())
    (name,) = client.keys("ditto:t:effect:*")
    assert 0 < client.pttl(name) <= 60_000


def test_no_server_no_effect() -> None:
    """Without the ledger's server nothing is run, and the error is typed."""
    effect = Effect()
    with EmbeddedServer() as gone:
        client = open_state_client(gone.redis_url(0), timeout_ms=500)
    ledger = EffectLedger(RedisEffectStore(client, deployment="t"))
    with pytest.raises(StateBackendError):
        once(ledger, effect)
    client.close()
    assert effect.times == 0


def test_settlement_survives_a_restart_of_the_server() -> None:
    """A settlement that fails at first is tried again; the caller gets the result either way."""
    with EmbeddedServer(appendonly=True) as own:
        client = open_state_client(own.redis_url(0), timeout_ms=500)
        ledger = EffectLedger(RedisEffectStore(client, deployment="t"))

        def effect() -> JsonValue:
            own.restart()
            client.connection_pool.disconnect()
            return "done"

        assert once(ledger, effect) == "done"  # type: ignore[arg-type]  # counts nothing
        assert eventually(lambda: once(ledger, Effect())) == "done"
        client.close()
