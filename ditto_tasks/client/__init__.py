"""Clients: submit nodes and pipelines, and wait for their results."""

from typing import TYPE_CHECKING, Final

from ditto_tasks.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ditto_tasks.client.aio import AsyncDitto, AsyncPending
    from ditto_tasks.client.models import NodeReply, Receipt
    from ditto_tasks.client.protocol import Event
    from ditto_tasks.client.sync import Ditto, Pending

__all__ = ["AsyncDitto", "AsyncPending", "Ditto", "Event", "NodeReply", "Pending", "Receipt"]

_HOMES: Final = {
    "AsyncDitto": "ditto_tasks.client.aio",
    "AsyncPending": "ditto_tasks.client.aio",
    "Ditto": "ditto_tasks.client.sync",
    "Event": "ditto_tasks.client.protocol",
    "NodeReply": "ditto_tasks.client.models",
    "Pending": "ditto_tasks.client.sync",
    "Receipt": "ditto_tasks.client.models",
}

__getattr__ = lazy_exports(__name__, _HOMES)
