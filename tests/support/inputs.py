"""For each node one input that has every field of its model, and values that are bad in most places."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

SCOPE: Final = {"sessionId": "s", "turnId": "t", "invocationId": "i"}
REFERENCE: Final = {"uri": "note:1", "mediaType": "text/plain", "digest": "sha256:0"}
ITEM: Final = {"id": "a", "content": {"k": [1]}, "source": REFERENCE, "metadata": {"role": "user"}}
CONTEXT: Final = {"items": [ITEM]}
MESSAGE: Final = {"role": "user", "content": "What is kept?", "metadata": {"m": 1}}
ENTRY: Final = {"id": "c", "content": "kept", "source": "s", "score": 0.5}
MODEL: Final = {"provider": "extractive", "model": "extractive", "endpoint": "x", "providerOptions": {"o": 1}}
GENERATION: Final = {"temperature": 1, "topP": 1, "topK": 1, "maxTokens": 9, "stop": ["x"], "seed": 1}
CALL: Final = {"id": "c1", "name": "echo", "arguments": {"a": 1}}
RESULT: Final = {
    "callId": "c1",
    "source": "echo",
    "status": "failed",
    "content": "no",
    "structuredContent": {"a": 1},
    "references": [REFERENCE],
    "error": {"code": "E", "message": "m", "retryable": True},
    "metadata": {"m": 1},
}
KEY: Final = {"namespace": "n", "scope": SCOPE, "key": "k"}

INPUTS: Final[Mapping[str, dict[str, Any]]] = {
    "CONTEXT.LOAD": {
        "sources": [ITEM, {"role": "user", "content": "c", "name": "n"}, REFERENCE],
        "resolveReferences": False,
    },
    "CONTEXT.SELECT": {
        "context": CONTEXT,
        "purpose": "infer",
        "query": "q",
        "limit": 1,
        "maxTokens": 100,
        "strategy": {"kind": "default"},
    },
    "CONTEXT.UPDATE": {
        "context": CONTEXT,
        "add": [ITEM],
        "ingress": [{"id": "c", "sourceNode": "A.B", "content": 1, "reference": REFERENCE, "metadata": {}}],
        "removeIds": ["a"],
    },
    "CONTEXT.COMPRESS": {
        "context": CONTEXT,
        "maxItems": 5,
        "maxTokens": 100,
        "strategy": {"kind": "default"},
    },
    "MEMORY.GET": {"ids": ["x"], "keys": ["k"]},
    "MEMORY.QUERY": {
        "filter": {"key": "k", "namespace": "n", "kind": "k", "metadata": {"a.b": {"gt": 1}}},
        "limit": 1,
        "cursor": "c",
        "orderBy": [{"field": "id", "direction": "asc"}],
    },
    "MEMORY.SEARCH": {
        "query": "words",
        "strategy": "keyword",
        "filter": {"kind": "k"},
        "limit": 1,
        "options": {"o": 1},
    },
    "MEMORY.WRITE": {"memories": [{"key": "k1", "content": "c", "metadata": {"m": 1}}]},
    "MEMORY.UPDATE": {"memories": [{"id": "x", "content": "c", "metadata": {"m": 1}}]},
    "MEMORY.DELETE": {"ids": ["x"]},
    "RETRIEVAL.SEARCH": {
        "query": {"content": "words", "metadata": {"m": 1}},
        "target": {"name": "memory", "type": "t", "namespace": "n", "metadata": {"m": 1}},
        "strategy": "keyword",
        "filter": {"kind": "k"},
        "limit": 1,
        "options": {"o": 1},
    },
    "INFER.REASONING.SAMPLE": {
        "messages": [MESSAGE],
        "model": MODEL,
        "generation": GENERATION,
        "actions": [{"name": "act", "description": "d", "inputSchema": {}, "targetNode": "A.B"}],
        "metadata": {"m": 1},
    },
    "INFER.REASONING.TRAJECTORY": {
        "messages": [MESSAGE],
        "objective": "o",
        "context": [ENTRY],
        "memory": [{"id": "m", "content": "c", "score": 1, "timestamp": "t"}],
        "strategy": {"name": "cot", "options": {"rounds": 1}},
        "model": MODEL,
        "generation": GENERATION,
        "constraints": {"maxSteps": 2, "maxTotalTokens": 10, "timeoutMs": 5000},
    },
    "INFER.REASONING.REFLECT": {
        "target": {"result": "r"},
        "mode": "critique",
        "criteria": ["c"],
        "messages": [MESSAGE],
        "context": [ENTRY],
        "memory": [{"id": "m", "content": "c"}],
        "model": MODEL,
        "generation": GENERATION,
    },
    "INFER.REASONING.DELIBERATE": {
        "candidates": [{"id": "a", "result": MESSAGE, "score": 1, "metadata": {"m": 1}}],
        "mode": "select",
        "selectCount": 1,
        "objective": "o",
        "messages": [MESSAGE],
        "context": [ENTRY],
        "model": MODEL,
        "generation": GENERATION,
    },
    "INFER.CACHE.LOOKUP": {"key": KEY},
    "INFER.CACHE.WRITE": {"key": KEY, "value": {"v": 1}, "ttlMs": 60_000, "tags": ["t"]},
    "INFER.CACHE.INVALIDATE": {"key": KEY},
    "INTERACTION.ACT.TOOL": {"call": CALL},
    "INTERACTION.ACT.MCP": {"operation": "invoke", "server": "s", "call": CALL},
    "INTERACTION.OBSERVE": {"result": RESULT},
    "INTERACTION.OUTPUT": {
        "deliveryId": "d",
        "message": {"role": "assistant", "content": "c", "name": "n"},
        "artifacts": [1],
    },
}
ALTERNATIVES: Final = {"INFER.CACHE.INVALIDATE": {"tag", "namespace"}}  # exactly one field may be given


def nested(levels: int) -> Any:
    """A number within so many arrays."""
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


# no message can carry these: their sender hears of it
NOT_JSON: Final[Mapping[str, Any]] = {
    "NaN": float("nan"),
    "infinity": float("-inf"),
    "10**400": 10**400,
    "10,000 levels": nested(10_000),
    "bytes": b"x",
    "a set": {1},
    "an int key": {1: "x"},
}
# JSON, and refused by most fields
ODD: Final[Mapping[str, Any]] = {
    "null": None,
    "true": True,
    "-1": -1,
    "1.5": 1.5,
    "2**70": 2**70,
    "empty": "",
    "10 kB": "x" * 10_000,
    "a lone surrogate": "\ud800",
    "a list": [],
    "an object": {},
    "a list of null": [None],
    "tagged": {"__type__": "bogus", "__value__": "x"},
    "200 levels": nested(200),
    "201 levels": nested(201),
}

Path = tuple[str | int, ...]


class Case(NamedTuple):
    """An input with one value replaced, or added."""

    node: str
    path: Path
    kind: str
    wire: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.node} {'/'.join(map(str, self.path))}: {self.kind}"


def cases(node: str, values: Mapping[str, Any]) -> Iterator[Case]:
    """Every value in every place of the node's input."""
    for path in paths(INPUTS[node]):
        for kind, value in values.items():
            yield Case(node, path, kind, replaced(INPUTS[node], path, value))


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """The path of everything in the value, but of the value itself."""
    children: Any = ()
    if isinstance(value, dict):
        children = value.items()
    elif isinstance(value, list):
        children = enumerate(value)
    for key, child in children:
        yield (*path, key)
        yield from paths(child, (*path, key))


def replaced(wire: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """A copy with another value at the path."""
    changed = json.loads(json.dumps(wire))  # unlike deepcopy this shares nothing within it
    place: Any = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return changed
