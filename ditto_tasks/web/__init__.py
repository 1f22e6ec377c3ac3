"""A router that FastAPI applications mount (extra `web`): submit, follow and cancel tasks over HTTP."""

from typing import TYPE_CHECKING, Final

from ditto_tasks.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ditto_tasks.web.fastapi import create_router
    from ditto_tasks.web.service import own_memories

__all__ = ["create_router", "own_memories"]

_HOMES: Final = {
    "create_router": "ditto_tasks.web.fastapi",
    "own_memories": "ditto_tasks.web.service",
}

__getattr__ = lazy_exports(__name__, _HOMES)
