"""The questions that `ditto doctor` asks, and what to do about each answer. No answer holds a credential."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final, Literal

from kombu.exceptions import OperationalError
from redis.exceptions import AuthenticationError

from ditto_tasks.celery import LOCAL_BROKER, LOCAL_RESULTS, DittoCelery, create_app
from ditto_tasks.embedded import MINIMUM_VERSION
from ditto_tasks.errors import DittoError
from ditto_tasks.memory.opening import memory_is_configured, without_vectors
from ditto_tasks.settings import Settings, check_visibility_timeout, unknown_variables
from ditto_tasks.state.redis import open_state_client

State = Literal["ok", "warning", "wrong"]
POLICY: Final = "maxmemory-policy"
PROBE_TIMEOUT_MS: Final = 3_000  # a person waits

_MEMORY_REMEDY: Final = "start the database or correct DITTO_WORKER_MEMORY_URL"
_NO_MEMORY_REMEDY: Final = "set DITTO_WORKER_MEMORY_URL, for example to sqlite:///memory.db"
_EXTENSION_REMEDY: Final = (
    "correct DITTO_EXTENSIONS; the module has to be installed, in PYTHONPATH or in this directory"
)
_MEMORY_REMEDIES: Final = {"SCHEMA_OUTDATED": "run `ditto memory init`"}


@dataclass(frozen=True)
class Finding:
    """One answer: what was looked at, how it is, and what to do if it is not well."""

    subject: str
    state: State
    text: str
    remedy: str = ""


def findings(settings: Settings) -> Iterator[Finding]:
    """All answers for these settings, each as soon as it is known."""
    for name in unknown_variables():
        yield Finding(
            "environment", "warning", f"{name} is read by nothing", "compare it with config/env.example"
        )
    app = create_app(settings)
    yield from _visibility(app)
    named = settings.connections
    broker = None if named.broker_url else LOCAL_BROKER
    results = None if named.result_backend_url else LOCAL_RESULTS
    yield from _server("broker", "DITTO_BROKER_URL", lambda: _broker_answers(app), default=broker)
    yield from _server("results", "DITTO_RESULT_BACKEND_URL", lambda: _result_answers(app), default=results)
    yield from _contexts(settings)
    yield from _services(app)
    yield from _vectors(settings)


def _visibility(app: DittoCelery) -> Iterator[Finding]:
    seconds = float(app.conf.broker_transport_options["visibility_timeout"])
    try:
        check_visibility_timeout(app.settings, seconds)
    except DittoError as exc:
        yield Finding("visibility timeout", "wrong", exc.message, "raise it, or lower the longest timeout")
    else:
        longest_s = app.settings.longest_task_ms / 1000
        yield Finding("visibility timeout", "ok", f"{seconds:g} s; the longest task has {longest_s:g} s")


def _contexts(settings: Settings) -> Iterator[Finding]:
    url = settings.connections.context_redis_url
    if url is None:
        remedy = "set DITTO_WORKER_CONTEXT_REDIS_URL to a database of its own"
        yield Finding("contexts", "warning", "no state store is configured; scoped calls will fail", remedy)
        return

    def ask() -> "Answers":
        with closing(open_state_client(url.get_secret_value(), timeout_ms=PROBE_TIMEOUT_MS)) as client:
            return _client_answers(client)

    yield from _server("contexts", "DITTO_WORKER_CONTEXT_REDIS_URL", ask)


@dataclass(frozen=True)
class Answers:
    """What a server says of itself; None where it may not be asked."""

    version: tuple[int, ...]
    policy: str | None


def _broker_answers(app: DittoCelery) -> Answers:
    with app.connection_for_write() as connection:
        connection.ensure_connection(max_retries=1, timeout=PROBE_TIMEOUT_MS // 1000)
        channel: Any = connection.default_channel  # the Redis transport's, which has a client
        with channel.conn_or_acquire() as client:  # `channel.client` may wait for a message
            return _client_answers(client)


def _result_answers(app: DittoCelery) -> Answers:
    backend: Any = app.backend  # the Redis backend, which has a client
    return _client_answers(backend.client)


def _client_answers(client: Any) -> Answers:  # redis-py's client, whichever its class
    client.ping()
    version = str(client.info("server").get("redis_version", "0"))
    return Answers(tuple(int(part) for part in version.split(".")[:2]), _policy(client))


def _policy(client: Any) -> str | None:  # as above
    try:
        return str(client.config_get(POLICY)[POLICY])
    except Exception:  # noqa: BLE001 -- an ACL may forbid CONFIG, which is no fault
        return None


def _server(
    subject: str, variable: str, ask: Callable[[], Answers], *, default: str | None = None
) -> Iterator[Finding]:
    """The answers of one server; `default` is where it is looked for, as the variable is not set."""
    try:
        answers = ask()
    except Exception as exc:  # noqa: BLE001 -- whatever the driver raises means "not reachable"
        if _is_refusal(exc):
            yield Finding(subject, "wrong", "refuses user and password", f"correct those in {variable}")
            return
        remedy = f"start the server or correct {variable}" if default is None else f"set {variable}"
        remedy += "; `ditto up` runs one for development"
        yield Finding(subject, "wrong", f"does not answer ({type(exc).__name__}){_where(default)}", remedy)
        return
    version = ".".join(map(str, answers.version))
    yield Finding(subject, "ok", f"answers, speaks version {version}{_where(default)}")
    if answers.version < MINIMUM_VERSION:
        yield Finding(subject, "wrong", "is older than 6.2", "use Redis >= 6.2 or Valkey")
    yield from _eviction(subject, answers.policy)


def _where(default: str | None) -> str:
    return "" if default is None else f"; its variable is not set, so it is {default}"


def _is_refusal(problem: Exception) -> bool:
    """Whether the server is there and does not know the user; kombu wraps what its driver raised."""
    cause = problem.__cause__ if isinstance(problem, OperationalError) else problem
    return isinstance(cause, AuthenticationError)


def _eviction(subject: str, policy: str | None) -> Iterator[Finding]:
    if policy is None:
        remedy = "allow CONFIG GET, or make sure that it is noeviction"
        yield Finding(subject, "warning", f"{POLICY} cannot be read", remedy)
    elif policy != "noeviction":
        remedy = f"CONFIG SET {POLICY} noeviction: any other drops tasks and sessions without a word"
        yield Finding(subject, "wrong", f"{POLICY} is {policy}", remedy)


def _vectors(settings: Settings) -> Iterator[Finding]:
    """An embedding that memory makes nothing of: its owner may believe that memories are found by meaning."""
    reason = without_vectors(settings)
    if reason is not None:
        text = f"memories have none, though an embedding is configured: {reason}"
        remedy = "if memories are to be found by meaning, see docs/operations.md, Setting up a deployment"
        yield Finding("vectors", "warning", text, remedy)


def _services(app: DittoCelery) -> Iterator[Finding]:
    """The application's extensions, and the memory, which may be one of theirs."""
    try:
        app.dependencies.bindings()
        yield _memory(app)
    except DittoError as exc:
        yield Finding("extensions", "wrong", exc.message, _EXTENSION_REMEDY)
    finally:
        app.dependencies.close()


def _memory(app: DittoCelery) -> Finding:
    try:
        app.dependencies.memory().ping()
    except DittoError as exc:
        if exc.code == "INVALID_SETTINGS" and not memory_is_configured(app.settings):
            return Finding("memory", "warning", "none is configured; its calls will fail", _NO_MEMORY_REMEDY)
        return Finding("memory", "wrong", exc.message, _MEMORY_REMEDIES.get(exc.code, _MEMORY_REMEDY))
    except Exception as exc:  # noqa: BLE001 -- a driver's error; its text may hold a credential
        return Finding("memory", "wrong", f"does not answer ({type(exc).__name__})", _MEMORY_REMEDY)
    return Finding("memory", "ok", "answers")
