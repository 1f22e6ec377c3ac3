"""A small chat over a session's context: progress live, the answer, and what the context holds.

With a server and a worker running (`ditto up` shows the variables):
uvicorn --factory examples.fastapi_app.app:create
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import FileResponse, Response
from fastapi.staticfiles import StaticFiles

from ditto_tasks import AsyncDitto, Settings
from ditto_tasks.web import create_router

PAGE = Path(__file__).parent / "page"
COOKIE = "visitor"
# only our own files: no inline scripts, no other hosts
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:"


class Visitors:
    """Everyone who opens the page is a tenant of their own. A real application asks who they are."""

    def __init__(self) -> None:
        self._tenants: dict[str, str] = {}

    def admit(self, cookie: str | None) -> str:
        """The cookie of a visitor, a new one if there is none."""
        if cookie in self._tenants:
            return str(cookie)
        token = secrets.token_urlsafe()
        self._tenants[token] = f"visitor-{secrets.token_hex(8)}"
        return token

    def tenant(self, request: Request) -> str:
        """The dependency that the router asks on every request."""
        tenant = self._tenants.get(request.cookies.get(COOKIE, ""))
        if tenant is None:
            raise HTTPException(401, "open the page first")
        return tenant


def create(settings: Settings | None = None) -> FastAPI:
    """The application; `settings` default to the environment's."""
    client, visitors = AsyncDitto(settings), Visitors()

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with client:
            yield

    app = FastAPI(title="Ditto chat", lifespan=lifespan)
    app.include_router(create_router(client, tenant=visitors.tenant), prefix="/api")
    app.mount("/page", StaticFiles(directory=PAGE))

    @app.get("/", include_in_schema=False)
    async def page(request: Request) -> Response:
        answer = FileResponse(PAGE / "index.html", headers={"Content-Security-Policy": POLICY})
        token = visitors.admit(request.cookies.get(COOKIE))
        answer.set_cookie(COOKIE, token, httponly=True, samesite="strict")
        return answer

    return app
