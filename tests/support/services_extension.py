"""An extension of a worker in tests whose services show what they are lent, and hang where told."""

from ditto_tasks.context.base import ContextExecution
from ditto_tasks.context.models import ContextReference
from ditto_tasks.extensions import Extension
from ditto_tasks.json_values import JsonValue
from ditto_tasks.settings import Settings
from ditto_tasks.task import TaskClient
from support.resolver import SufferingResolver

NAME = "support.services_extension:open_services"
KEY: dict[str, JsonValue] = {"namespace": "lent", "scope": "s", "key": "k"}


class LentResolver(SufferingResolver):
    """`send:` writes an entry of INFER's cache by the client that the task lends."""

    def resolve(self, reference: ContextReference, execution: ContextExecution) -> JsonValue:
        if not reference.uri.startswith("send:"):
            return super().resolve(reference, execution)
        client = execution.runtime
        assert isinstance(client, TaskClient)
        sent = client.send("INFER.CACHE.WRITE", {"key": KEY, "value": reference.uri})
        return {"root": client.root_id, "deadline": client.deadline_ms, "sent": sent}


def open_services(_settings: Settings) -> Extension:
    """For DITTO_EXTENSIONS."""
    return Extension(context={"reference_resolver": LentResolver()})
