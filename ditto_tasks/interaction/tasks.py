"""The INTERACTION nodes as tasks: effects are recorded, so that no redelivery repeats one."""

from collections.abc import Callable, Mapping

from ditto_tasks.interaction.base import EffectKey, InteractionCall
from ditto_tasks.interaction.ledger import EffectLedger
from ditto_tasks.interaction.nodes import NODE_TYPES
from ditto_tasks.interaction.opening import WorkerInteractionNodes
from ditto_tasks.interruptions import watched
from ditto_tasks.json_values import JsonValue
from ditto_tasks.models import to_wire
from ditto_tasks.task import Handler, TaskCall


class RecordedAction:
    """Implements OnceJson for one delivery: a node has one effect, at position 0 of its step."""

    def __init__(self, ledger: EffectLedger, call: TaskCall) -> None:
        self._ledger = ledger
        self._call = call

    def __call__(
        self, inputs: JsonValue, effect: Callable[[], JsonValue], admit: Callable[[], None]
    ) -> JsonValue:
        """Return the recorded result, or run the effect and record it."""
        return self._ledger.once(
            EffectKey(
                owner=self._call.owner, step=self._call.operation_id, position=0, root=self._call.root_id
            ),
            {"node": self._call.node, "inputs": inputs},
            effect,
            token=self._call.token,
            repeat_unknown=self._call.options.on_unknown == "repeat",
            admit=admit,
        )


def run(call: TaskCall) -> JsonValue:
    """Run one INTERACTION node."""
    nodes = call.dependencies.interaction()
    ledger = nodes.ledger if isinstance(nodes, WorkerInteractionNodes) else None
    limits = InteractionCall(
        token=call.token,
        timeout_ms=call.options.timeout_ms,
        once=None if ledger is None else RecordedAction(ledger, call),
        root=call.root_id,
        admit=call.stop_if_interrupted,
    )
    with watched(call):
        return to_wire(nodes.execute(call.node, call.wire, call=limits))


HANDLERS: Mapping[str, Handler] = dict.fromkeys(NODE_TYPES, run)
