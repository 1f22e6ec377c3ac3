"""The INFER nodes in process; each returns a NodeResult and raises nothing for a node's own failure."""

import uuid
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeVar

from ditto_tasks.errors import InferError
from ditto_tasks.infer.asking import Asker, Clock, InferDefaults, SystemClock
from ditto_tasks.infer.base import InferCall, ModelProvider
from ditto_tasks.infer.models import SampleInput
from ditto_tasks.infer.outcome import failure, success
from ditto_tasks.infer.values import Sample
from ditto_tasks.json_values import JsonObject
from ditto_tasks.models import NodeResult, WireModel, from_wire, to_wire

SAMPLE = "INFER.REASONING.SAMPLE"
NODE_TYPES = (SAMPLE,)
InputModel = TypeVar("InputModel", bound=WireModel)
NodeInput = WireModel | Mapping[str, object]
_NO_LIMITS = InferCall()


class InferNodes:
    """Samples, reflects, deliberates, follows trajectories and caches."""

    def __init__(
        self,
        providers: Mapping[str, ModelProvider],
        *,
        defaults: InferDefaults | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._providers = MappingProxyType(dict(providers))
        self._defaults = defaults or InferDefaults()
        self._clock = clock or SystemClock()
        self._handlers: Mapping[str, Callable[[NodeInput, Asker], WireModel]] = {SAMPLE: self._sample}

    def sample(
        self, given: NodeInput, *, execution_id: str | None = None, call: InferCall = _NO_LIMITS
    ) -> NodeResult:
        """INFER.REASONING.SAMPLE: one candidate answer."""
        return self.execute(SAMPLE, given, execution_id=execution_id, call=call)

    def execute(
        self, node: str, given: NodeInput, *, execution_id: str | None = None, call: InferCall = _NO_LIMITS
    ) -> NodeResult:
        """Run a node by its type; ``call.emit`` hears start, deltas, steps and the one result."""
        run_id = execution_id or uuid.uuid4().hex
        emit = call.emit or _ignore
        emit({"type": "start", "executionId": run_id, "node": node})
        result = self._result(node, given, run_id, call)
        emit({"type": "result", "result": to_wire(result)})
        return result

    def close(self) -> None:
        """Close the providers."""
        for provider in self._providers.values():
            provider.close()

    def _result(self, node: str, given: NodeInput, run_id: str, call: InferCall) -> NodeResult:
        try:
            handler = self._handler(node)
            asker = self._asker(call)
            asker.check()
            return success(run_id, node, to_wire(handler(given, asker)))
        except Exception as error:  # noqa: BLE001 - the node's boundary: a failure is a value, its text is public
            return failure(run_id, node, error, call.token)

    def _handler(self, node: str) -> Callable[[NodeInput, Asker], WireModel]:
        if node not in self._handlers:
            raise InferError("UNKNOWN_NODE", "no such INFER node")
        return self._handlers[node]

    def _asker(self, call: InferCall) -> Asker:
        timeout_ms = call.timeout_ms or self._defaults.timeout_ms
        return Asker(
            providers=self._providers,
            defaults=self._defaults,
            call=call,
            clock=self._clock,
            deadline_s=self._clock.now() + timeout_ms / 1000,
        )

    def _sample(self, given: NodeInput, asker: Asker) -> Sample:
        ask = parse(SampleInput, given)
        return asker.ask(ask.messages, model=ask.model, generation=ask.generation, actions=ask.actions)


def parse(model: type[InputModel], given: NodeInput) -> InputModel:
    """Return the input as its model; raises InferError INVALID_INPUT with the path."""
    return given if isinstance(given, model) else from_wire(model, given, error=InferError)


def _ignore(_: JsonObject) -> None:
    """Nobody listens."""
