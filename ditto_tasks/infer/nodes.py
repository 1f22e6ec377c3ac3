"""The INFER nodes in process; each returns a NodeResult and raises nothing for a node's own failure."""

import logging
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from ditto_tasks.entry_limit import EntryLimit
from ditto_tasks.errors import DittoError, InferError, raised
from ditto_tasks.infer import caching, reasoning
from ditto_tasks.infer.asking import Asker, Clock, InferDefaults, SystemClock
from ditto_tasks.infer.base import InferCache, InferCall, ModelProvider, Strategy
from ditto_tasks.infer.outcome import failure, success
from ditto_tasks.infer.stores.memory import InMemoryInferCache
from ditto_tasks.infer.strategies import BUILT_IN
from ditto_tasks.infer.streaming import streamed
from ditto_tasks.json_values import JsonObject
from ditto_tasks.models import CancelToken, NodeInput, NodeResult, WireModel, to_wire

_log = logging.getLogger(__name__)

SAMPLE = "INFER.REASONING.SAMPLE"
TRAJECTORY = "INFER.REASONING.TRAJECTORY"
REFLECT = "INFER.REASONING.REFLECT"
DELIBERATE = "INFER.REASONING.DELIBERATE"
CACHE_LOOKUP = "INFER.CACHE.LOOKUP"
CACHE_WRITE = "INFER.CACHE.WRITE"
CACHE_INVALIDATE = "INFER.CACHE.INVALIDATE"
NODE_TYPES = (SAMPLE, TRAJECTORY, REFLECT, DELIBERATE, CACHE_LOOKUP, CACHE_WRITE, CACHE_INVALIDATE)
NO_LIMITS = InferCall()


class InferNodes:
    """Samples, follows trajectories, reflects, deliberates and caches.

    Each method takes the wire input or its model, and returns a NodeResult whose output is the wire form;
    docs/tasks.md lists inputs, outputs and codes. `providers` are model services by name, `strategies` add to
    the built-in trajectory strategies; `call` limits, cancels and listens to one call.
    """

    def __init__(
        self,
        providers: Mapping[str, ModelProvider],
        *,
        strategies: Mapping[str, Strategy] | None = None,
        cache: InferCache | None = None,
        defaults: InferDefaults | None = None,
        clock: Clock | None = None,
        concurrency: int | None = None,
    ) -> None:
        self._entries = EntryLimit(concurrency)
        self._providers = MappingProxyType(dict(providers))
        self._defaults = defaults or InferDefaults()
        self._clock = clock or SystemClock()
        self._handlers = _handlers({**BUILT_IN, **(strategies or {})}, cache or InMemoryInferCache())

    def sample(self, given: NodeInput, *, call: InferCall = NO_LIMITS) -> NodeResult:
        """INFER.REASONING.SAMPLE: one candidate answer."""
        return self.execute(SAMPLE, given, call=call)

    def trajectory(self, given: NodeInput, *, call: InferCall = NO_LIMITS) -> NodeResult:
        """INFER.REASONING.TRAJECTORY: a strategy within budgets."""
        return self.execute(TRAJECTORY, given, call=call)

    def reflect(self, given: NodeInput, *, call: InferCall = NO_LIMITS) -> NodeResult:
        """INFER.REASONING.REFLECT: an assessment of a result, trajectory or artifact."""
        return self.execute(REFLECT, given, call=call)

    def deliberate(self, given: NodeInput, *, call: InferCall = NO_LIMITS) -> NodeResult:
        """INFER.REASONING.DELIBERATE: a judgement over candidates."""
        return self.execute(DELIBERATE, given, call=call)

    def lookup(self, given: NodeInput) -> NodeResult:
        """INFER.CACHE.LOOKUP: a live entry or a miss."""
        return self.execute(CACHE_LOOKUP, given)

    def write(self, given: NodeInput) -> NodeResult:
        """INFER.CACHE.WRITE: replaces an entry."""
        return self.execute(CACHE_WRITE, given)

    def invalidate(self, given: NodeInput) -> NodeResult:
        """INFER.CACHE.INVALIDATE: removes entries by key, tag or namespace."""
        return self.execute(CACHE_INVALIDATE, given)

    def execute(
        self,
        node: str,
        given: NodeInput,
        *,
        execution_id: str | None = None,
        call: InferCall = NO_LIMITS,
    ) -> NodeResult:
        """Run a node by its type; ``call.emit`` hears start, deltas, steps and the one result."""
        run_id = execution_id or uuid.uuid4().hex
        emit = call.emit or _ignore
        emit({"type": "start", "executionId": run_id, "node": node})
        result = self._result(node, given, run_id, call)
        emit({"type": "result", "result": to_wire(result)})
        return result

    def stream(self, node: str, given: NodeInput, *, call: InferCall = NO_LIMITS) -> Iterator[JsonObject]:
        """Run a node and yield its events: start, text_delta*, step*, then exactly one result."""
        own = replace(call, token=call.token if call is not NO_LIMITS else CancelToken())
        return streamed(lambda emit: self.execute(node, given, call=replace(own, emit=emit)), own.token)

    def close(self) -> None:
        """Close the providers."""
        for provider in self._providers.values():
            provider.close()

    def _result(self, node: str, given: NodeInput, run_id: str, call: InferCall) -> NodeResult:
        try:
            asker = self._asker(call)
            if call.once is None:  # records are asked first
                asker.check()
            if node not in self._handlers:
                raise InferError("UNKNOWN_NODE", "no such INFER node")
            with self._entries.entered(asker.is_over):
                return success(run_id, node, to_wire(self._handlers[node](given, asker)))
        except Exception as error:  # noqa: BLE001 - the node's boundary: a failure is a value, its text is public
            if not isinstance(error, DittoError):
                _log.warning("%s met %s", node, raised(error))
            return failure(run_id, node, error, call.token)

    def _asker(self, call: InferCall) -> Asker:
        timeout_ms = call.timeout_ms or self._defaults.longest_ms
        return Asker(
            providers=self._providers,
            defaults=self._defaults,
            call=call,
            clock=self._clock,
            deadline_s=self._clock.now() + timeout_ms / 1000,
        )


NodeHandler = Callable[[NodeInput, Asker], WireModel]


def _handlers(strategies: Mapping[str, Strategy], cache: InferCache) -> Mapping[str, NodeHandler]:
    return {
        SAMPLE: reasoning.sample,
        TRAJECTORY: partial(reasoning.trajectory, strategies=strategies),
        REFLECT: reasoning.reflect,
        DELIBERATE: reasoning.deliberate,
        CACHE_LOOKUP: lambda given, _: caching.lookup(given, cache),
        CACHE_WRITE: lambda given, _: caching.write(given, cache),
        CACHE_INVALIDATE: lambda given, _: caching.invalidate(given, cache),
    }


def _ignore(_: JsonObject) -> None:
    """Nobody listens."""
