"""A tenant's request for a flow, as the call that is started."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias
from uuid import uuid4

from ditto_tasks.client.flows import FlowCall, flow_request
from ditto_tasks.client.models import read_json
from ditto_tasks.errors import DittoError
from ditto_tasks.json_values import JsonValue
from ditto_tasks.pipelines.models import FlowName
from ditto_tasks.tenants import tenant_session
from ditto_tasks.web.flow_models import FlowQuery
from ditto_tasks.web.models import Body

FlowOptionsOf: TypeAlias = Callable[[str, FlowName], Mapping[str, JsonValue]]
NEEDS_MODEL: Final = frozenset({"summarize"})


def nothing_chosen(_tenant: str, _flow: FlowName) -> Mapping[str, JsonValue]:
    """The deployment's model answers, and the caller chooses the rest."""
    return {}


@dataclass(frozen=True, slots=True)
class AskedFlow:
    """A request for a flow on a tenant's session."""

    tenant: str
    session: str
    flow: FlowName
    body: Body
    query: FlowQuery = field(default_factory=FlowQuery)

    def ready(self, chosen: Mapping[str, JsonValue]) -> FlowCall[JsonValue]:
        """The call, checked as the flow will check it. What the application has `chosen` wins."""
        if self.flow in NEEDS_MODEL and "model" not in chosen:
            raise DittoError("NO_MODEL", f"the application names no model for {self.flow}")
        scope: dict[str, JsonValue] = {"sessionId": tenant_session(self.tenant, self.session)}
        wire = {**self.body.given(), **chosen}
        request = flow_request(self.flow, wire, scope, self.query.timeout_ms)
        return FlowCall(request, str(uuid4()), read_json)
