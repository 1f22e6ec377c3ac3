"""The INFER nodes as tasks: a failed node is a successful task with a failed NodeResult."""

from collections.abc import Mapping

from ditto_tasks.infer.base import InferCall
from ditto_tasks.infer.nodes import NODE_TYPES
from ditto_tasks.infer.opening import WorkerInferNodes
from ditto_tasks.infer.recording import RecordedSamples
from ditto_tasks.interaction.base import EffectKey
from ditto_tasks.interruptions import watched
from ditto_tasks.json_values import JsonValue
from ditto_tasks.models import to_wire
from ditto_tasks.pipelines.steps import SAMPLE, step_of
from ditto_tasks.task import Handler, TaskCall


def run(call: TaskCall) -> JsonValue:
    """Run one INFER node; its execution id is the task's, its samples are recorded, its events streamed."""
    nodes = call.dependencies.infer()
    with watched(call):
        result = nodes.execute(call.node, call.wire, execution_id=call.task_id, call=limits_of(call, nodes))
    return to_wire(result)


def limits_of(call: TaskCall, nodes: object) -> InferCall:
    """Return the call's options, and where its samples and events are recorded."""
    options = call.options
    limits = InferCall(
        token=call.token,
        timeout_ms=options.timeout_ms,
        retries=options.retries,
        admit=call.stop_if_interrupted,
    )
    if not isinstance(nodes, WorkerInferNodes) or nodes.ledger is None:
        return limits
    once = RecordedSamples(
        nodes.ledger,
        EffectKey(owner=call.owner, step=call.operation_id, position=0, root=call.root_id),
        token=call.token,
        repeat_unknown=options.on_unknown == "repeat",
    )
    return limits.with_records(once=once, emit=nodes.events_of(call.task_id, call.root_id, _spoken(call)))


def _spoken(call: TaskCall) -> str | None:
    """The step whose text is heard in its run's own stream: a sample of a flow that takes several."""
    step = step_of(call.task_id, call.root_id)
    return step if step is not None and step.startswith(f"{SAMPLE}-") else None


HANDLERS: Mapping[str, Handler] = dict.fromkeys(NODE_TYPES, run)
