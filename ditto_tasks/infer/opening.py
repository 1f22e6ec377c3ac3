"""Opens the INFER nodes of a worker from its settings and the application's services."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Protocol, cast

from ditto_tasks.errors import SettingsError
from ditto_tasks.infer.asking import InferDefaults
from ditto_tasks.infer.base import Emit, InferCache, ModelProvider, Strategy
from ditto_tasks.infer.models import Constraints
from ditto_tasks.infer.nodes import InferNodes
from ditto_tasks.infer.providers.extractive import ExtractiveProvider
from ditto_tasks.infer.sampling import BUILT_IN_PROVIDER
from ditto_tasks.infer.stores.memory import InMemoryInferCache
from ditto_tasks.infer.stores.redis import RedisClient, RedisInferCache, TaskEvents
from ditto_tasks.infer.values import GenerationConfig
from ditto_tasks.interaction.ledger import EffectLedger
from ditto_tasks.interaction.stores.redis import RedisEffectStore
from ditto_tasks.json_values import JsonObject
from ditto_tasks.settings import Provider, Settings
from ditto_tasks.state.redis import open_state_client

# kind -> class, imported only when configured: each needs its own extra
KINDS: Mapping[str, tuple[str, str]] = {
    "openai": ("ditto_tasks.infer.providers.openai_compatible", "OpenAiCompatibleProvider"),
    "anthropic": ("ditto_tasks.infer.providers.anthropic", "AnthropicProvider"),
    "google": ("ditto_tasks.infer.providers.google", "GoogleProvider"),
}


class _Client(RedisClient, Protocol):
    def ping(self) -> object: ...
    def close(self) -> None: ...


class WorkerInferNodes(InferNodes):
    """The nodes of a worker, with the records in the broker's database that its tasks keep."""

    client: _Client | None = None
    ledger: EffectLedger | None = None
    deployment: str = ""

    def events_of(self, task_id: str, root_id: str, step: str | None = None) -> Emit | None:
        """Return where the events of a canvas's task go, or None without a broker.

        What the model says in a ``step`` is told in the stream of the root as well.
        """
        if self.client is None:
            return None
        own = TaskEvents(self.client, deployment=self.deployment, task_id=task_id, root_id=root_id)
        if step is None:
            return own
        run = TaskEvents(self.client, deployment=self.deployment, task_id=root_id, step=step)

        def both(event: JsonObject) -> None:
            own(event)
            run(event)

        return both

    def ping(self) -> None:
        """Ask the broker's database; raises its client's errors."""
        if self.client is not None:
            self.client.ping()

    def close(self) -> None:
        """Close the providers and the client."""
        super().close()
        if self.client is not None:
            self.client.close()


def open_infer(settings: Settings, services: Mapping[str, object]) -> WorkerInferNodes:
    """Open the nodes; of ``services``, providers and strategies add to ours by name, cache replaces it."""
    configured = {name: open_provider(name, each) for name, each in settings.shared.providers.items()}
    given = cast("Mapping[str, ModelProvider]", services.get("providers", {}))
    client = open_broker_client(settings)
    deployment = settings.connections.deployment
    nodes = WorkerInferNodes(
        {BUILT_IN_PROVIDER: ExtractiveProvider(), **configured, **given},
        strategies=cast("Mapping[str, Strategy]", services.get("strategies", {})),
        cache=cast("InferCache | None", services.get("cache")) or open_cache(settings, client),
        defaults=defaults_of(settings),
        concurrency=settings.infer.concurrency,
    )
    nodes.client, nodes.deployment = client, deployment
    nodes.ledger = EffectLedger(RedisEffectStore(client, deployment=deployment)) if client else None
    return nodes


def open_broker_client(settings: Settings) -> _Client | None:
    """Return a client of the broker's database, which connects when first used; None without a broker."""
    url = settings.connections.broker_url
    return None if url is None else cast("_Client", open_state_client(url.get_secret_value()))


def open_cache(settings: Settings, client: RedisClient | None) -> InferCache:
    """Return the cache that all workers share, or one of this process where there is no broker."""
    if client is None:
        return InMemoryInferCache(max_entries=settings.infer.cache.max_entries)
    return RedisInferCache(client, deployment=settings.connections.deployment)


def defaults_of(settings: Settings) -> InferDefaults:
    """Return the worker's defaults."""
    infer, providers = settings.infer, settings.shared.providers
    generation = {**infer.generation.model_dump(), "stop": infer.generation.stop or None}
    return InferDefaults(
        provider=settings.connections.infer_model_provider,
        model=settings.connections.infer_model,
        timeout_ms=settings.runtime.timeout_ms,
        provider_timeouts_ms={name: each.timeout_ms for name, each in providers.items() if each.timeout_ms},
        generation=GenerationConfig(**generation),
        constraints=Constraints(**infer.constraints.model_dump()),
        deliberate_mode=infer.deliberate.mode,
        select_count=infer.deliberate.select_count,
        deliberate_max_tokens=infer.deliberate.max_tokens,
        strategies=infer.strategies.model_dump(by_alias=True),
    )


def open_provider(name: str, provider: Provider) -> ModelProvider:
    """Open a configured provider; raises SettingsError for an unknown kind or a missing extra."""
    if provider.kind == BUILT_IN_PROVIDER:
        return ExtractiveProvider()
    path = f"DITTO_SHARED_PROVIDER_{re.sub('[^A-Z0-9]', '_', name.upper())}_KIND"
    if provider.kind not in KINDS:
        raise SettingsError("INVALID_SETTINGS", f"{path}: no such kind of provider", {"path": path})
    module, attribute = KINDS[provider.kind]
    try:
        opener = cast("Callable[..., ModelProvider]", getattr(import_module(module), attribute))
    except ImportError as error:
        message = f"{path}: needs the extra ditto-tasks[{provider.kind}]"
        raise SettingsError("MISSING_EXTRA", message, {"path": path}) from error
    base_url = provider.base_url.get_secret_value() if provider.base_url else None
    api_key = provider.api_key.get_secret_value() if provider.api_key else None
    return opener(base_url=base_url, api_key=api_key, model=provider.model)
