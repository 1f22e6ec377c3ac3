"""INFER as methods of both clients."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Required, Unpack

from ditto_tasks.client.models import NodeReply, read_reply
from ditto_tasks.client.node_methods import ActingOptions, C, Domain, Method, Wire, call_of
from ditto_tasks.client.protocol import Call

if TYPE_CHECKING:
    from ditto_tasks.infer.models import (
        CacheKey,
        Candidate,
        Constraints,
        Deliberation,
        Invalidated,
        Lookup,
        Reflection,
        ReflectTarget,
        StrategyChoice,
        Trajectory,
        Written,
    )
    from ditto_tasks.infer.values import (
        ActionDescriptor,
        ContextEntry,
        GenerationConfig,
        MemoryEntry,
        Message,
        ModelConfig,
        Sample,
    )


class InferOptions(ActingOptions, total=False):
    """The options of INFER."""

    retries: int


class Reasoning(InferOptions, total=False):
    """What every node of INFER.REASONING has."""

    model: "ModelConfig | Wire | None"
    generation: "GenerationConfig | Wire | None"


class SampleIt(Reasoning, total=False):
    """Keywords of `infer.sample`."""

    messages: Required[Sequence["Message | Wire"]]
    actions: "Sequence[ActionDescriptor | Wire] | None"
    metadata: Wire | None


class Try(Reasoning, total=False):
    """Keywords of `infer.trajectory`."""

    messages: Required[Sequence["Message | Wire"]]
    strategy: Required["StrategyChoice | Wire"]
    objective: str | None
    context: "Sequence[ContextEntry | Wire] | None"
    memory: "Sequence[MemoryEntry | Wire] | None"
    constraints: "Constraints | Wire | None"


class Reflect(Reasoning, total=False):
    """Keywords of `infer.reflect`."""

    target: Required["ReflectTarget | Wire"]
    mode: Required[Literal["critique", "verify", "revise"]]
    criteria: str | Sequence[str] | None
    messages: "Sequence[Message | Wire] | None"
    context: "Sequence[ContextEntry | Wire] | None"
    memory: "Sequence[MemoryEntry | Wire] | None"


class Deliberate(Reasoning, total=False):
    """Keywords of `infer.deliberate`."""

    candidates: Required[Sequence["Candidate | Wire"]]
    mode: Literal["select", "merge", "consensus", "debate"] | None
    select_count: int | None
    objective: str | None
    messages: "Sequence[Message | Wire] | None"
    context: "Sequence[ContextEntry | Wire] | None"


class CacheLookup(InferOptions, total=False):
    """Keywords of `infer.cache_lookup`."""

    key: Required["CacheKey | Wire"]


class CacheWrite(InferOptions, total=False):
    """Keywords of `infer.cache_write`."""

    key: Required["CacheKey | Wire"]
    value: Required[object]
    ttl_ms: int | None
    tags: Sequence[str] | None


class CacheInvalidate(InferOptions, total=False):
    """Keywords of `infer.cache_invalidate`."""

    key: "CacheKey | Wire | None"
    tag: str | None
    namespace: str | None


class InferMethods(Domain[C]):
    """INFER: models, and a cache of what they said."""

    @Method
    def sample(self, **given: Unpack[SampleIt]) -> "Call[NodeReply[Sample]]":
        """One answer of a model."""
        return call_of("INFER.REASONING.SAMPLE", given, read_reply)

    @Method
    def trajectory(self, **given: Unpack[Try]) -> "Call[NodeReply[Trajectory]]":
        """Several samples by a strategy, within constraints."""
        return call_of("INFER.REASONING.TRAJECTORY", given, read_reply)

    @Method
    def reflect(self, **given: Unpack[Reflect]) -> "Call[NodeReply[Reflection]]":
        """What is wrong with a result, and with `mode="revise"` a better one."""
        return call_of("INFER.REASONING.REFLECT", given, read_reply)

    @Method
    def deliberate(self, **given: Unpack[Deliberate]) -> "Call[NodeReply[Deliberation]]":
        """A choice between candidates, or one result made of them."""
        return call_of("INFER.REASONING.DELIBERATE", given, read_reply)

    @Method
    def cache_lookup(self, **given: Unpack[CacheLookup]) -> "Call[NodeReply[Lookup]]":
        """What is cached under a key."""
        return call_of("INFER.CACHE.LOOKUP", given, read_reply)

    @Method
    def cache_write(self, **given: Unpack[CacheWrite]) -> "Call[NodeReply[Written]]":
        """Put a value under a key."""
        return call_of("INFER.CACHE.WRITE", given, read_reply)

    @Method
    def cache_invalidate(self, **given: Unpack[CacheInvalidate]) -> "Call[NodeReply[Invalidated]]":
        """Take out the entries of a key, a tag or a namespace."""
        return call_of("INFER.CACHE.INVALIDATE", given, read_reply)
