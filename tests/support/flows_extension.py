"""An extension of a worker in tests of flows: a tool that ends as told, and a sink that is fussy."""

import threading

from ditto_tasks.context import ContextItem
from ditto_tasks.context.inputs import SelectInput
from ditto_tasks.extensions import Extension
from ditto_tasks.interaction.base import ActionCall, Tool, ToolError
from ditto_tasks.interaction.models import OutputInput
from ditto_tasks.interaction.values import ExternalError, OutputReceipt
from ditto_tasks.json_values import JsonObject
from ditto_tasks.settings import Settings
from ditto_tasks.state.redis import open_state_client
from support.counting import count_call

NAME = "support.flows_extension:acting"
TOOLS = ("note", "upper")
ANY = {"type": "object"}


class NewestFirst:
    """A RAG strategy that knows only what is there."""

    def select(self, request: SelectInput, execution: object) -> list[ContextItem]:
        return list(reversed(request.context.items)) if request.context else []


class FussySink:
    """Rejects the text `no`, is unsure of `maybe`, and takes the rest."""

    def deliver(self, output: OutputInput, call: ActionCall) -> OutputReceipt:
        error = ExternalError(code="FUSSY", message="the sink is fussy")
        if output.message.content == "no":
            return OutputReceipt(delivery_id=output.delivery_id, status="rejected", error=error)
        if output.message.content == "maybe":
            return OutputReceipt(delivery_id=output.delivery_id, status="unknown", error=error)
        return OutputReceipt(delivery_id=output.delivery_id, status="accepted")


def acting(settings: Settings) -> Extension:
    """`note` counts its calls under `test:<key>` in the broker's database; `upper` shouts."""
    url = settings.connections.broker_url
    assert url is not None
    client = open_state_client(url.get_secret_value())

    def note(arguments: JsonObject, call: ActionCall) -> object:
        times = count_call(client, arguments["key"])
        if arguments.get("hang"):
            threading.Event().wait(600)
        if "ends" in arguments:
            raise ToolError("AS_TOLD", "ended as told", status=arguments["ends"])  # type: ignore[arg-type]  # a status
        return {"times": times}

    def upper(arguments: JsonObject, call: ActionCall) -> object:
        return str(arguments["text"]).upper()

    given = [
        Tool(name=name, description=name, input_schema=ANY, run=run)
        for name, run in zip(TOOLS, (note, upper), strict=True)
    ]
    acted = {"tools": given, "sink": FussySink()}
    return Extension(interaction=acted, context={"rag_strategy": NewestFirst()}, close=client.close)
