"""Functions of graphs and loops in tests, and an extension through which workers have them too."""

import threading
from collections.abc import Mapping
from typing import cast

from ditto_tasks.extensions import Extension
from ditto_tasks.json_values import JsonObject, JsonValue
from ditto_tasks.pipelines.graph_functions import graph_function
from ditto_tasks.settings import Settings
from ditto_tasks.state.redis import open_state_client

NAME = "support.graphs_extension:counting"
RAN = "test:ran:"  # a list a run: node and server's ms, pushed whenever its binding is asked

_client = None


def counting(settings: Settings) -> Extension:
    """Gives nothing itself; from now on bindings of this process tell when they are asked."""
    global _client  # a binding is given nothing but its arguments
    url = settings.connections.broker_url
    assert url is not None
    _client = open_state_client(url.get_secret_value())
    return Extension(close=_client.close)


def ran(key: str, node: str) -> None:
    """Note that a node is being run, where this process counts."""
    if _client is not None:
        seconds, microseconds = cast("tuple[int, int]", _client.time())
        _client.rpush(f"{RAN}{key}", f"{node} {seconds * 1000 + microseconds // 1000}")
        _client.expire(f"{RAN}{key}", 3600)


def texts(outputs: Mapping[str, JsonValue]) -> list[str]:
    """The contents of all contexts among outputs, dependency by dependency."""
    found = []
    for name, output in outputs.items():
        context = cast(JsonObject, output).get("context", output)
        items = cast("list[JsonObject]", cast(JsonObject, context)["items"])
        found += [f"{name}={item['content']}" for item in items]
    return found


@graph_function("test.mix")
def mix(given: JsonValue, outputs: Mapping[str, JsonValue]) -> JsonObject:
    """Sources that tell all that this node could see; long texts are cut to a digest of themselves."""
    seen = "|".join([str(given), *texts(outputs)])
    if len(seen) > 200:
        seen = f"{sum(map(ord, seen))}:{len(seen)}:{seen[:40]}"
    return {"sources": [{"id": "seen", "content": seen}]}


@graph_function("test.both")
def both(given: JsonValue, outputs: Mapping[str, JsonValue]) -> JsonObject:
    """An explicit context of what was seen, with something added."""
    items = [{"id": f"i{at}", "content": text[:80]} for at, text in enumerate(texts(outputs))]
    return {"context": {"items": items}, "add": [{"id": "new", "content": str(given)[:20]}]}


@graph_function("test.choose")
def choose(given: JsonValue, outputs: Mapping[str, JsonValue]) -> JsonObject:
    """A selection of what was seen."""
    return {"context": both(given, outputs)["context"], "purpose": "infer", "limit": 2}


@graph_function("test.work")
def work(given: JsonValue, outputs: Mapping[str, JsonValue]) -> JsonObject:
    """As `test.mix`, but it takes time and tells that it runs. The first item of the input names the run."""
    asked = cast(JsonObject, given)
    ran(str(asked["key"]), ",".join(outputs) or "first")
    threading.Event().wait(cast(int, asked.get("ms", 0)) / 1000)
    return mix(asked.get("seed"), outputs)


@graph_function("test.fail")
def fail(given: JsonValue, outputs: Mapping[str, JsonValue]) -> JsonObject:
    """Raises, unless the run's input says that it is mended."""
    raise ValueError("a secret")


@graph_function("test.wait")
def wait(given: JsonValue, outputs: Mapping[str, JsonValue]) -> JsonObject:
    """Waits until `test:go:<key>` is there."""
    key = cast(JsonObject, given)["key"]
    ran(str(key), "wait")
    assert _client is not None
    while not _client.exists(f"test:go:{key}"):
        threading.Event().wait(0.02)
    return mix(None, outputs)


@graph_function("test.once")
def once(given: JsonValue, outputs: Mapping[str, JsonValue]) -> JsonObject:
    """Raises the first time."""
    key = cast(JsonObject, given)["key"]
    assert _client is not None
    times = _client.incr(f"test:times:{key}")
    _client.expire(f"test:times:{key}", 3600)
    if times == 1:
        raise ValueError("the first time")
    return mix(None, outputs)


@graph_function("test.first item")
def first_item(state: JsonValue) -> JsonValue:
    """A loop's `bind`: the state itself."""
    return state


@graph_function("test.count")
def count(state: JsonValue, outputs: Mapping[str, JsonValue]) -> JsonValue:
    """A loop's `update`: one more round, with all that was seen in it."""
    known = cast(JsonObject, state)
    rounds = cast(int, known.get("rounds", 0)) + 1
    return {**known, "rounds": rounds, "seen": f"{known.get('seen', '')};{','.join(texts(outputs))}"[-500:]}


@graph_function("test.enough")
def enough(state: JsonValue) -> JsonValue:
    """A loop's `done`: as many rounds as the state asks for."""
    known = cast(JsonObject, state)
    return known["rounds"] == known["wanted"]


@graph_function("test.even or odd")
def even_or_odd(state: JsonValue) -> JsonValue:
    """A loop's `select`."""
    return "odd" if cast(int, cast(JsonObject, state).get("rounds", 0)) % 2 else "even"


@graph_function("test.nonsense")
def nonsense(state: JsonValue) -> JsonValue:
    """A `select` or `done` that is none."""
    return "nonsense"
