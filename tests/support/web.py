"""A web application with the router, on real uvicorn and a real socket."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated

import httpx
import uvicorn
from fastapi import FastAPI, Header, HTTPException

from ditto_tasks.client import AsyncDitto
from ditto_tasks.settings import Settings
from ditto_tasks.web import create_router
from support.polling import eventually

TENANTS = {"Bearer of-ann": "ann", "Bearer of-bob": "bob"}
ANN = {"Authorization": "Bearer of-ann"}
BOB = {"Authorization": "Bearer of-bob"}
START_S = 20.0


def tenant(authorization: Annotated[str, Header()] = "") -> str:
    """The application's own authentication."""
    if authorization not in TENANTS:
        raise HTTPException(401, "who are you?")
    return TENANTS[authorization]


def application(settings: Settings, **options: object) -> FastAPI:
    """An application that mounts the router under /api."""
    client = AsyncDitto(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI):
        app.state.loop = asyncio.get_running_loop()
        async with client:
            yield

    app = FastAPI(lifespan=lifespan)
    app.state.client = client
    app.include_router(create_router(client, **{"tenant": tenant, **options}), prefix="/api")
    return app


@contextmanager
def serving(app: Callable[..., object]) -> Iterator[str]:
    """The address of the application, served on loopback by a thread of this process."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=5))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            eventually(lambda: server.started or not thread.is_alive(), START_S)
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(START_S)


@contextmanager
def browsing(url: str, headers: dict[str, str] | None = None) -> Iterator[httpx.Client]:
    """A client of the routes under /api."""
    with httpx.Client(base_url=f"{url}/api", headers=headers, timeout=30.0) as http:
        yield http


def server_sent(response: httpx.Response) -> Iterator[dict[str, str]]:
    """The events of a stream, each as its fields."""
    fields: dict[str, str] = {}
    for line in response.iter_lines():
        name, colon, value = line.partition(":")
        if not line and fields:
            yield fields
            fields = {}
        elif colon and name:
            fields[name] = value.removeprefix(" ")
