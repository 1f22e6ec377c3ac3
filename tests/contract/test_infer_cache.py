"""One contract for every INFER cache: in memory and in Redis."""

from collections.abc import Callable, Iterator

import pytest
import redis
from support.polling import eventually

from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.infer.base import InferCache
from ditto_tasks.infer.models import CacheKey
from ditto_tasks.infer.nodes import InferNodes
from ditto_tasks.infer.stores.memory import InMemoryInferCache
from ditto_tasks.infer.stores.redis import RedisInferCache
from ditto_tasks.json_values import JsonObject
from ditto_tasks.models import NodeResult
from ditto_tasks.state.redis import open_state_client

KEY = {"namespace": "n", "scope": {"sessionId": "s"}, "key": "k"}


@pytest.fixture
def client(server: EmbeddedServer) -> Iterator["redis.Redis"]:
    opened = open_state_client(server.redis_url(0))
    yield opened
    opened.flushdb()  # entries without a TTL stay by their writer's wish
    opened.close()


@pytest.fixture(params=["memory", "redis"])
def cache(request: pytest.FixtureRequest) -> InferCache:
    if request.param == "memory":
        return InMemoryInferCache()
    return RedisInferCache(request.getfixturevalue("client"), deployment="t")


@pytest.fixture
def nodes(cache: InferCache) -> InferNodes:
    return InferNodes({}, cache=cache)


def key(name: str, **fields: object) -> JsonObject:
    return {**KEY, "key": name, **fields}  # type: ignore[dict-item]  # JSON by the tests' choice


def output(result: NodeResult) -> object:
    assert result.status == "success", result
    return result.output


@pytest.mark.parametrize("value", [None, 0, "", "\ud800", [1, {"__type__": "x"}], {"n": 2**70}, False])
def test_value_comes_back(nodes: InferNodes, value: object) -> None:
    """Any JSON value is found again as it was written, null included."""
    assert output(nodes.lookup({"key": KEY})) == {"hit": False}
    assert output(nodes.write({"key": KEY, "value": value})) == {"written": True}
    assert output(nodes.lookup({"key": KEY})) == {"hit": True, "value": value}


@pytest.mark.parametrize(
    "other",
    [
        {"scope": {"sessionId": "s"}, "key": "k"},
        {**KEY, "namespace": "m"},
        {**KEY, "scope": "s"},
        {**KEY, "scope": {"turnId": "s"}},
        {**KEY, "key": "K"},
    ],
)
def test_keys_are_told_apart(nodes: InferNodes, other: JsonObject) -> None:
    """Namespace, scope and key each make another entry."""
    nodes.write({"key": KEY, "value": 1})
    assert output(nodes.lookup({"key": other})) == {"hit": False}


def test_write_replaces_value_ttl_and_tags(nodes: InferNodes) -> None:
    """A second write leaves nothing of the first, its tags included."""
    nodes.write({"key": KEY, "value": 1, "ttlMs": 1, "tags": ["old"]})
    nodes.write({"key": KEY, "value": 2, "tags": ["new"]})
    assert output(nodes.invalidate({"tag": "old"})) == {"removed": 0}
    assert output(nodes.lookup({"key": KEY})) == {"hit": True, "value": 2}
    assert output(nodes.invalidate({"tag": "new"})) == {"removed": 1}


def test_ttl_zero_is_gone_at_once(nodes: InferNodes) -> None:
    """A TTL of 0 removes the entry that was there."""
    nodes.write({"key": KEY, "value": 1})
    nodes.write({"key": KEY, "value": 2, "ttlMs": 0})
    assert output(nodes.lookup({"key": KEY})) == {"hit": False}


def test_ttl_passes(nodes: InferNodes) -> None:
    """An entry is gone after its TTL, and is not counted as live when invalidated."""
    nodes.write({"key": KEY, "value": 1, "ttlMs": 30, "tags": ["t"]})
    nodes.write({"key": key("stays"), "value": 1, "ttlMs": 60_000, "tags": ["t"]})
    eventually(lambda: output(nodes.lookup({"key": KEY})) == {"hit": False})
    assert output(nodes.invalidate({"tag": "t"})) == {"removed": 1}


def test_invalidate_by_each_selector(nodes: InferNodes) -> None:
    """Invalidation by key, tag or namespace removes exactly what it names and says how many."""
    for name in ("a", "b", "c"):
        nodes.write({"key": key(name), "value": name, "tags": ["all", name]})
    nodes.write({"key": key("d", namespace="m"), "value": "d", "tags": ["all"]})
    assert output(nodes.invalidate({"key": key("a")})) == {"removed": 1}
    assert output(nodes.invalidate({"key": key("a")})) == {"removed": 0}
    assert output(nodes.invalidate({"tag": "b"})) == {"removed": 1}
    assert output(nodes.invalidate({"namespace": "n"})) == {"removed": 1}
    assert output(nodes.invalidate({"tag": "all"})) == {"removed": 1}
    assert output(nodes.lookup({"key": key("d", namespace="m")})) == {"hit": False}


@pytest.mark.parametrize(
    "call",
    [
        lambda nodes: nodes.invalidate({}),
        lambda nodes: nodes.invalidate({"tag": "a", "namespace": "b"}),
        lambda nodes: nodes.invalidate({"tag": None}),
        lambda nodes: nodes.invalidate({"tag": ""}),
        lambda nodes: nodes.lookup({"key": {"key": "k"}}),
        lambda nodes: nodes.lookup({"key": {"scope": {}, "key": "k"}}),
        lambda nodes: nodes.lookup({"key": {"scope": {"other": "x"}, "key": "k"}}),
        lambda nodes: nodes.write({"key": KEY}),
        lambda nodes: nodes.write({"key": KEY, "value": float("nan")}),
        lambda nodes: nodes.write({"key": KEY, "value": 1, "ttlMs": -1}),
        lambda nodes: nodes.write({"key": KEY, "value": 1, "ttlMs": True}),
        lambda nodes: nodes.write({"key": KEY, "value": 1, "tags": "t"}),
    ],
)
def test_bad_input(nodes: InferNodes, call: Callable[[InferNodes], NodeResult]) -> None:
    """A bad cache input is INVALID_INPUT."""
    result = call(nodes)
    assert result.error is not None, result
    assert result.error.code == "INVALID_INPUT"


def test_least_recently_used_goes_first() -> None:
    """The cache in memory keeps its number of entries; looking one up keeps it."""
    cache = InMemoryInferCache(max_entries=2)
    keys = [CacheKey(scope="s", key=str(n)) for n in range(3)]
    cache.write(keys[0], 0, ttl_ms=None, tags=())
    cache.write(keys[1], 1, ttl_ms=None, tags=())
    assert cache.lookup(keys[0]) == (True, 0)
    cache.write(keys[2], 2, ttl_ms=None, tags=())
    assert [cache.lookup(each)[0] for each in keys] == [True, False, True]


def test_dead_entries_go_before_live_ones() -> None:
    """An expired entry makes room before a live one is pushed out."""
    clock = [0.0]
    cache = InMemoryInferCache(max_entries=2, now=lambda: clock[0])
    keys = [CacheKey(scope="s", key=str(n)) for n in range(3)]
    cache.write(keys[0], 0, ttl_ms=None, tags=())
    cache.write(keys[1], 1, ttl_ms=10, tags=())
    clock[0] = 0.01
    cache.write(keys[2], 2, ttl_ms=None, tags=())
    assert [cache.lookup(each)[0] for each in keys] == [True, False, True]


def test_redis_entries_with_ttl_leave_no_lasting_key(client: "redis.Redis") -> None:
    """Entries that expire leave indexes that expire no earlier than the longest of them."""
    cache = RedisInferCache(client, deployment="t")
    for name, ttl_ms in (("a", 50_000), ("b", 1_000)):
        cache.write(CacheKey(scope="s", key=name, namespace="n"), 1, ttl_ms=ttl_ms, tags=("t",))
    times = {name: client.pttl(name) for name in client.keys("*")}
    assert len(times) == 7  # two entries, their tag and namespace, and whose they may be: s, n as either
    assert all(left > 0 for left in times.values())
    assert all(left > 40_000 for name, left in times.items() if b":entry:" not in name)


def test_redis_is_shared(client: "redis.Redis") -> None:
    """What one worker writes another one finds; another deployment doesn't."""
    RedisInferCache(client, deployment="t").write(CacheKey(scope="s", key="k"), 1, ttl_ms=1_000, tags=())
    assert RedisInferCache(client, deployment="t").lookup(CacheKey(scope="s", key="k")) == (True, 1)
    assert RedisInferCache(client, deployment="u").lookup(CacheKey(scope="s", key="k")) == (False, None)
