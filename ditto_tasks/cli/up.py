"""`ditto up`: a server, a worker and Flower for development, until Ctrl-C."""

import secrets
import socket
import tempfile
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from ditto_tasks.celery import DittoCelery, create_app
from ditto_tasks.cli.children import Children, StopRequest
from ditto_tasks.cli.flower import CONFIG_FILE
from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.memory.opening import open_store
from ditto_tasks.memory.stores.sql import SqlMemoryStore
from ditto_tasks.sending import BrokerError, typed_broker_errors
from ditto_tasks.settings import Settings, child_environment, load_settings

MEMORY_URL: Final = "DITTO_WORKER_MEMORY_URL"
SERVER: Final = "embedded server"
PING_S: Final = 0.5  # that a worker may take to answer, while all starts
LOG_CHARACTERS: Final = 1_000
LOOPBACK: Final = "127.0.0.1"
FLOWER_PORT: Final = 5555
BROKER_DB, RESULT_DB, CONTEXT_DB = 0, 1, 2  # contexts outlive results and queues, so they live apart


@dataclass(frozen=True)
class Stack:
    """Where everything of one `ditto up` is."""

    directory: Path
    variables: dict[str, str]
    flower_port: int
    credential: str

    @property
    def flower_url(self) -> str:
        return f"http://{LOOPBACK}:{self.flower_port}"


@click.command()
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep the server's data and the memory here. Without it they go when the stack stops.",
)
@click.option(
    "--flower-port",
    type=click.IntRange(0, 65_535),
    default=FLOWER_PORT,
    show_default=True,
    help="Port of Flower; a free one if taken.",
)
@click.option("--concurrency", type=click.IntRange(min=1), help="Tasks that the worker runs at a time.")
@click.option(
    "-A",
    "--app",
    "application",
    metavar="APP",
    default="ditto_tasks",
    show_default=True,
    help="What the worker serves, as `celery -A` takes it: an application with nodes of your own.",
)
def up(directory: Path | None, flower_port: int, concurrency: int | None, application: str) -> None:
    """Run a server, a worker and Flower until Ctrl-C.

    The server is an embedded one unless DITTO_BROKER_URL names another. Nothing stays behind.
    """
    stop_request = StopRequest().install()
    with ExitStack() as stack:
        place = directory or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ditto-up-")))
        place.mkdir(parents=True, exist_ok=True)
        settings = load_settings()
        server = None if settings.connections.broker_url else _server(place, keep=directory is not None)
        if server is not None:
            stack.enter_context(server)
        variables = _variables(settings, place, server)
        _prepare_memory(variables)
        running = Stack(place, variables, free_port(flower_port), _credential(settings))
        children = stack.enter_context(Children(stop_request))
        if server is not None:
            children.watched[SERVER] = lambda: server.is_running
        _start(children, running, application, concurrency)
        _announce(running)
        ended = _serve(children, running)
        reason = _reason(ended, server)
    if reason is not None:
        raise click.ClickException(reason)


def _serve(children: Children, running: Stack) -> str | None:
    """Announce all again, below the logs of the start; the name of what ended by itself."""
    with closing(create_app(load_settings(None, child_environment(running.variables)))) as app:
        ended = children.wait(lambda: is_listening(running.flower_port) and _answers(app))
    if ended is not None or children.stop_request.event.is_set():
        return ended
    _announce(running)
    return children.wait()


def _answers(app: DittoCelery) -> bool:
    with suppress(BrokerError), typed_broker_errors():
        return bool(app.control.ping(timeout=PING_S))
    return False


def _reason(ended: str | None, server: EmbeddedServer | None) -> str | None:
    """Why the stack stops, unless it was asked to."""
    if ended != SERVER or server is None:
        return ended and f"the {ended} ended by itself; its messages are above"
    log = server.directory / "server.log"
    words = log.read_text("utf-8", "replace")[-LOG_CHARACTERS:].strip() if log.exists() else ""
    return "the embedded server ended by itself, and with it all that it held in memory only" + (
        f"; its last words:\n{words}" if words else ""
    )


def is_listening(port: int) -> bool:
    """Whether something answers on a port of the loopback address."""
    with socket.socket() as probe:
        probe.settimeout(PING_S)
        return probe.connect_ex((LOOPBACK, port)) == 0


def _server(place: Path, *, keep: bool) -> EmbeddedServer:
    return EmbeddedServer(place / "server" if keep else None, appendonly=keep)


def _variables(settings: Settings, place: Path, server: EmbeddedServer | None) -> dict[str, str]:
    """The connections that the environment leaves open."""
    variables = {}
    if settings.connections.memory_url is None and not _other_memory(settings):
        variables[MEMORY_URL] = f"sqlite:///{place.resolve() / 'memory.sqlite3'}"
    if server is not None:
        variables |= {
            "DITTO_BROKER_URL": server.url(BROKER_DB),
            "DITTO_RESULT_BACKEND_URL": server.url(RESULT_DB),
            "DITTO_WORKER_CONTEXT_REDIS_URL": server.redis_url(CONTEXT_DB),
        }
    return variables


def _prepare_memory(variables: dict[str, str]) -> None:
    """Create the tables of the stack's own memory; another database is its owner's to change."""
    if MEMORY_URL in variables:
        with closing(open_store(load_settings(None, child_environment(variables)))) as store:
            if isinstance(store, SqlMemoryStore):
                store.migrate()


def _other_memory(settings: Settings) -> bool:
    connections = settings.connections
    return connections.memory_postgres_url is not None or connections.memory_qdrant_url is not None


def _credential(settings: Settings) -> str:
    given = settings.connections.flower_basic_auth
    return given.get_secret_value() if given is not None else f"ditto:{secrets.token_urlsafe(12)}"


def free_port(wanted: int) -> int:
    """The wanted port of the loopback address, or another one if it is taken."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise click.ClickException("no free port for Flower")


def _start(children: Children, running: Stack, application: str, concurrency: int | None) -> None:
    worker = ["-m", "celery", "-A", application, "worker", "--loglevel", "INFO", "--task-events"]
    if concurrency is not None:
        worker += ["--concurrency", str(concurrency)]
    children.start("worker", worker, child_environment(running.variables))
    start_flower(children, running)


def start_flower(children: Children, running: Stack, *, log: Path | None = None) -> None:
    """Start Flower for a stack."""
    config = running.directory / "flowerconfig.py"
    config.write_text(CONFIG_FILE, "utf-8")
    flower = ["-m", "celery", "-A", "ditto_tasks", "flower", f"--conf={config}"]
    flower += [f"--port={running.flower_port}", f"--db={running.directory / 'flower'}"]
    # the pages show no results, so Flower gets no way to the result backend
    extra = {"DITTO_FLOWER_BASIC_AUTH": running.credential, "DITTO_RESULT_BACKEND_URL": "disabled://"}
    children.start("flower", flower, child_environment({**running.variables, **extra}), log=log)


def _announce(running: Stack) -> None:
    click.echo(f"Flower: {running.flower_url}   {running.credential}")
    if running.variables:
        click.echo("For another shell:")
    for name, value in running.variables.items():
        click.echo(f"  export {name}='{value}'")
    click.echo("Stop with Ctrl-C.")
