"""An extension of a worker in tests: work that waits until it is let go, heeds no cancel, and then speaks.

Each part notes in the broker's database that it has begun, `test:<word>:begun`, and goes on once there is
`test:<word>:go`. The word is what it says.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

from ditto_tasks.context.base import ContextExecution
from ditto_tasks.context.models import ContextReference
from ditto_tasks.extensions import Extension
from ditto_tasks.infer.base import ModelRequest, ProviderCall
from ditto_tasks.infer.values import Message, Sample
from ditto_tasks.interaction.base import ActionCall, Tool
from ditto_tasks.interaction.models import OutputInput
from ditto_tasks.interaction.sinks import RedisStreamSink
from ditto_tasks.interaction.values import OutputReceipt
from ditto_tasks.json_values import JsonObject, JsonValue
from ditto_tasks.memory.models import MemoryItem, MemorySearchResult, Search
from ditto_tasks.settings import Settings
from ditto_tasks.state.redis import open_state_client
from support.counting import count_call
from support.polling import eventually

NAME = "support.stubborn_extension:stubborn"
TOOLS = ("say",)
PATIENCE_S = 60.0
WORD = re.compile("canary[0-9a-f]+")


@dataclass(frozen=True)
class Gate:
    """Where work waits."""

    client: Any  # of redis-py

    def pass_through(self, word: str) -> str:
        """Note that it has begun, wait until it may go on, and give the word."""
        count_call(self.client, f"{word}:begun")
        eventually(lambda: self.client.exists(f"test:{word}:go"), PATIENCE_S)
        return word


def let_go(client: Any, word: str) -> None:  # of redis-py
    """Let what waits go on."""
    client.set(f"test:{word}:go", "1", ex=600)


class StubbornModel:
    """Says the last word that it was told, after it waited; to who asks for a summary, as one."""

    endpoint = None
    default_model = "stubborn"

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def sample(self, request: ModelRequest, call: ProviderCall) -> Sample:
        word = self._gate.pass_through(WORD.findall(str(request.messages))[-1])
        if call.on_text is not None:
            call.on_text(word)
        if request.messages[0].role == "system":
            word = json.dumps({"summary": word, "sources": ["i"]})
        message = Message.model_validate({"role": "assistant", "content": word})
        return Sample(message=message, finish_reason="stop")

    def close(self) -> None:
        """The client is the extension's."""


@dataclass(frozen=True)
class StubbornSearch:
    """Finds the word that is asked for, after it waited."""

    gate: Gate

    def search(self, search: Search) -> list[MemorySearchResult]:
        word = self.gate.pass_through(str(search.query))
        return [MemorySearchResult(memory=MemoryItem(id="m", content=word), score=1.0)]


@dataclass(frozen=True)
class StubbornSink:
    """Hands over late what it was given."""

    gate: Gate
    stream: RedisStreamSink

    def deliver(self, output: OutputInput, call: ActionCall) -> OutputReceipt:
        self.gate.pass_through(str(output.message.content))
        return self.stream.deliver(output, call)


@dataclass(frozen=True)
class StubbornResolver:
    """Resolves `<word>:…` to the word."""

    gate: Gate

    def resolve(self, reference: ContextReference, execution: ContextExecution) -> JsonValue:
        return self.gate.pass_through(reference.uri.partition(":")[2])


def stubborn(settings: Settings) -> Extension:
    """For DITTO_EXTENSIONS."""
    url = settings.connections.broker_url
    assert url is not None
    client = open_state_client(url.get_secret_value())
    gate = Gate(client)

    def say(arguments: JsonObject, call: ActionCall) -> object:
        return gate.pass_through(str(arguments["word"]))

    tool = Tool(name="say", description="Says a word.", input_schema={"type": "object"}, run=say)
    sink = StubbornSink(gate, RedisStreamSink(client, deployment=settings.connections.deployment))
    return Extension(
        context={"reference_resolver": StubbornResolver(gate)},
        memory={"search": StubbornSearch(gate)},
        infer={"providers": {"stubborn": StubbornModel(gate)}},
        interaction={"tools": [tool], "sink": sink},
        close=client.close,
    )
