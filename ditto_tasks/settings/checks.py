"""Rules that take more than one setting to state."""

from ditto_tasks.settings.connections import Connections
from ditto_tasks.settings.snapshot import Settings
from ditto_tasks.settings.yaml import invalid


def check(settings: Settings) -> Settings:
    """Return `settings`, or raise SettingsError for the first rule that they break."""
    _one_memory(settings.connections)
    _separate_databases(settings.connections)
    _known_infer_provider(settings)
    return settings


def check_visibility_timeout(settings: Settings, visibility_timeout_s: float) -> None:
    """Refuse a broker that would hand out a task again while it still runs."""
    needed_s = 2 * settings.longest_task_ms / 1000
    if visibility_timeout_s <= needed_s:
        reason = f"is {visibility_timeout_s:g} s and must be over {needed_s:g} s, twice the longest task"
        raise invalid("broker_transport_options.visibility_timeout", reason)


def _one_memory(connections: Connections) -> None:
    stated = {
        "DITTO_WORKER_MEMORY_URL": connections.memory_url,
        "DITTO_WORKER_MEMORY_POSTGRES_URL": connections.memory_postgres_url,
        "DITTO_WORKER_MEMORY_QDRANT_URL": connections.memory_qdrant_url,
    }
    names = [name for name, url in stated.items() if url is not None]
    if len(names) > 1:
        raise invalid(names[1], f"given together with {names[0]}; name one memory store")


def _separate_databases(connections: Connections) -> None:
    if connections.context_redis_url is None:
        return
    for name, other in (
        ("DITTO_BROKER_URL", connections.broker_url),
        ("DITTO_RESULT_BACKEND_URL", connections.result_backend_url),
    ):
        if other == connections.context_redis_url:
            reason = f"is the same database as {name}; contexts need their own"
            raise invalid("DITTO_WORKER_CONTEXT_REDIS_URL", reason)


def _known_infer_provider(settings: Settings) -> None:
    name = settings.connections.infer_model_provider
    # the built-in provider needs no connection
    if name is not None and name != "extractive" and name not in settings.shared.providers:
        raise invalid("DITTO_WORKER_INFER_MODEL_PROVIDER", "is not in DITTO_SHARED_PROVIDERS")
