"""Tasks over HTTP: a router that FastAPI applications mount (extra `web`), and its service for others."""

from typing import TYPE_CHECKING, Final

from ditto_tasks.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ditto_tasks.web.failures import Refusal, refusal_of
    from ditto_tasks.web.flow_calls import AskedFlow
    from ditto_tasks.web.flow_models import FLOW_BODIES
    from ditto_tasks.web.models import AnswerBody
    from ditto_tasks.web.router import create_router
    from ditto_tasks.web.service import WebService, own_memories
    from ditto_tasks.web.streams import StreamLimits

__all__ = [
    "FLOW_BODIES",
    "AnswerBody",
    "AskedFlow",
    "Refusal",
    "StreamLimits",
    "WebService",
    "create_router",
    "own_memories",
    "refusal_of",
]

_HOMES: Final = {
    "AnswerBody": "ditto_tasks.web.models",
    "AskedFlow": "ditto_tasks.web.flow_calls",
    "FLOW_BODIES": "ditto_tasks.web.flow_models",
    "Refusal": "ditto_tasks.web.failures",
    "StreamLimits": "ditto_tasks.web.streams",
    "WebService": "ditto_tasks.web.service",
    "create_router": "ditto_tasks.web.router",
    "own_memories": "ditto_tasks.web.service",
    "refusal_of": "ditto_tasks.web.failures",
}

__getattr__ = lazy_exports(__name__, _HOMES)
