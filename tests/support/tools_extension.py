"""An extension of a worker in tests: tools whose effects can be counted, and that hang where told."""

import threading

from ditto_tasks.extensions import Extension
from ditto_tasks.interaction.base import ActionCall, Tool
from ditto_tasks.json_values import JsonObject
from ditto_tasks.settings import Settings
from ditto_tasks.state.redis import open_state_client
from support.counting import count_call

NAME = "support.tools_extension:tools"
ANY = {"type": "object"}


def tools(settings: Settings) -> Extension:
    """Tools that note their calls in the broker's database under `test:<key>`."""
    url = settings.connections.broker_url
    assert url is not None
    client = open_state_client(url.get_secret_value())

    def count(arguments: JsonObject, call: ActionCall) -> object:
        if arguments.get("hang") == "before":
            count_call(client, f"{arguments['key']}:hangs")
            threading.Event().wait(600)
        times = count_call(client, arguments["key"])
        if arguments.get("hang") == "after":
            count_call(client, f"{arguments['key']}:hangs")
            threading.Event().wait(600)
        threading.Event().wait(float(str(arguments.get("take_s", 0))))
        return {"times": times}

    given = [Tool(name="count", description="Counts its calls.", input_schema=ANY, run=count)]
    return Extension(interaction={"tools": given}, close=client.close)
