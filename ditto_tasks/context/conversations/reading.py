"""What reading a list has in common for all providers: places, ids and groups of items."""

from __future__ import annotations

from ditto_tasks.canonical import stable_id
from ditto_tasks.context.checks import an_object, frozen, refuse
from ditto_tasks.context.conversations.calls import OpenCalls
from ditto_tasks.context.conversations.marks import Format, position_of
from ditto_tasks.context.models import Context, ContextItem
from ditto_tasks.json_values import FrozenDict, JsonObject, JsonValue, freeze

_DIGEST = slice(len("message:"), len("message:") + 16)


class Reading:
    """The items of one list so far. Of equal messages each becomes an item of its own, by its place."""

    def __init__(self, form: Format, after: Context | None = None) -> None:
        before = after.items if after is not None else ()
        self.items: list[ContextItem] = []
        self.open = OpenCalls(before)
        self._form = form
        self._position = 1 + max((position_of(item) or 0 for item in before), default=-1)
        self._parts = 0

    def add(self, role: str, content: JsonValue, **marks: JsonValue) -> ContextItem:
        """One item of the message that is being read; a second one is joined to it."""
        shown = {key: value for key, value in marks.items() if value}
        metadata: JsonObject = {"sourceType": "message", "role": role, "format": self._form}
        metadata |= {"position": self._position, **shown}
        if self._parts:
            metadata["joined"] = True
        item_id = self._id([role, content, freeze(shown)])
        if "calls" in shown:
            metadata["callId"] = item_id
            del metadata["calls"]
        values: dict[str, object] = {"id": item_id, "content": content, "metadata": freeze(metadata)}
        item = ContextItem.assemble(values)
        self.items.append(item)
        self._parts += 1
        return item

    def done(self) -> None:
        """The message ends. What gave no item was a stand-in of an export and takes no place."""
        if self._parts:
            self._position += 1
        self._parts = 0

    def _id(self, about: JsonValue) -> str:
        digest = stable_id("message", [self._position, self._parts, about])[_DIGEST]
        return f"m{self._position:04d}-{digest}"


def message_at(value: object, path: str) -> FrozenDict:
    """A message of the list; anything that is not JSON is refused with its path."""
    message = frozen(an_object(value, path), path)
    if not isinstance(message, FrozenDict):
        raise refuse(path, "must be an object")
    return message


def rest_of(message: JsonObject, *taken: str) -> JsonObject:
    """The fields that are kept beside what became content."""
    return {key: value for key, value in message.items() if key not in taken}
