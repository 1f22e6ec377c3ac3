"""Bodies of the flows: each flow's own input, without what is not the caller's to choose.

They are shown in OpenAPI as the flows' own fields, and go to the flow as they came: it has the checks, and
names the paths.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, get_args

from pydantic import PlainValidator, create_model
from pydantic.fields import FieldInfo

from ditto_tasks.models import WireModel
from ditto_tasks.pipelines.flow_models import INPUTS
from ditto_tasks.pipelines.models import FlowName, Milliseconds
from ditto_tasks.web.models import Body, as_it_came

# a session's state is what a flow works on; the application says which model answers
NOT_THE_CALLERS: Final = frozenset({"context", "model"})


class FlowQuery(WireModel):
    """How long the flow may take; `runtime.pipelines.deadlineMs` where it is not said."""

    timeout_ms: Milliseconds | None = None


def _body_of(flow: FlowName, model: type[WireModel]) -> type[Body]:
    fields: dict[str, tuple[object, object]] = {
        name: _shown(field) for name, field in model.model_fields.items() if name not in NOT_THE_CALLERS
    }
    return create_model(  # type: ignore[no-any-return, call-overload]  # pydantic types no computed fields
        f"{flow.capitalize()}Body", __base__=Body, __doc__=model.__doc__, **fields
    )


def _shown(field: FieldInfo) -> tuple[object, object]:
    """A field as the schema shows it, which is taken as it came."""
    kind = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    taken = Annotated[object, PlainValidator(as_it_came, json_schema_input_type=kind)]
    return taken, (... if field.is_required() else None)


FLOW_BODIES: Final[Mapping[FlowName, type[Body]]] = {
    flow: _body_of(flow, INPUTS[flow]) for flow in get_args(FlowName)
}
