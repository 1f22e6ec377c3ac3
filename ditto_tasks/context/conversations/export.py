"""What an export answers, and what all exports refuse."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ditto_tasks.context.conversations.exchanges import Exchange
from ditto_tasks.context.conversations.renames import Rename
from ditto_tasks.errors import ContextError
from ditto_tasks.json_values import JsonObject, JsonValue


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A call without a result yet, for which the export has a marked stand-in."""

    item_id: str
    index: int
    call_id: str


@dataclass(frozen=True, slots=True)
class ProviderMessages:
    """A list that the provider accepts. `system` stands apart for Anthropic, and is None for OpenAI."""

    messages: list[JsonObject]
    system: JsonValue = None
    renames: tuple[Rename, ...] = ()
    interrupted: tuple[Interrupted, ...] = ()


def all_ids(exchanges: Iterable[Exchange]) -> frozenset[str]:
    return frozenset(call.id for exchange in exchanges for call in exchange.calls)


def interrupted(exchange: Exchange, ids: list[str]) -> list[Interrupted]:
    return [Interrupted(exchange.item.id, index, ids[index]) for index in exchange.unanswered]


def need_messages(exchanges: Iterable[Exchange]) -> None:
    if not any(exchange.role != "system" for exchange in exchanges):
        raise ContextError("CONVERSATION_INVALID", "there is no message beside the system's")
