"""The three cache nodes over an InferCache."""

from ditto_tasks.infer.base import InferCache
from ditto_tasks.infer.models import (
    Invalidated,
    InvalidateInput,
    Lookup,
    LookupInput,
    WriteInput,
    Written,
)
from ditto_tasks.infer.reasoning import parse
from ditto_tasks.models import NodeInput


def lookup(given: NodeInput, cache: InferCache) -> Lookup:
    """Return the value of a live entry, or a miss."""
    hit, value = cache.lookup(parse(LookupInput, given).key)
    return Lookup(hit=True, value=value) if hit else Lookup(hit=False)


def write(given: NodeInput, cache: InferCache) -> Written:
    """Write an entry; with a TTL of 0 nothing stays."""
    ask = parse(WriteInput, given)
    cache.write(ask.key, ask.value, ttl_ms=ask.ttl_ms, tags=tuple(dict.fromkeys(ask.tags or ())))
    return Written(written=True)


def invalidate(given: NodeInput, cache: InferCache) -> Invalidated:
    """Remove entries by key, tag or namespace."""
    ask = parse(InvalidateInput, given)
    removed = cache.invalidate(key=ask.key, tag=ask.tag, namespace=ask.namespace)
    return Invalidated(removed=removed)
