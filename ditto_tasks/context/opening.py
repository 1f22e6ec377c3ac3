"""What a worker's CONTEXT tasks work with, opened from Settings and an application's services."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Final

from ditto_tasks.context.base import ContextServices
from ditto_tasks.context.conversations.selector import NAME as CONVERSATION
from ditto_tasks.context.conversations.selector import ConversationCompressor, ConversationSelector
from ditto_tasks.context.named import NamedCompressors, NamedSelectors
from ditto_tasks.context.policy import ContextPolicy
from ditto_tasks.context.receipts import Recording
from ditto_tasks.entry_limit import EntryLimit
from ditto_tasks.errors import SettingsError
from ditto_tasks.settings import Settings
from ditto_tasks.state.base import ContextStateStore
from ditto_tasks.state.lined import LinedContextStore
from ditto_tasks.state.operations import OPERATIONS_KEPT
from ditto_tasks.state.redis import open_state_client

SERVICES: Final = frozenset(service.name for service in fields(ContextServices))


@dataclass(frozen=True, slots=True)
class OpenContext:
    """Policy, services and store of this process. `services.state_store` is None if none is configured."""

    policy: ContextPolicy
    services: ContextServices
    mutation_timeout_ms: int
    unrenewing_store: ContextStateStore | None = None  # the same states; its commits renew no time to live
    entries: EntryLimit = field(default_factory=EntryLimit)
    _close: Callable[[], None] | None = None
    _ping: Callable[[], object] | None = None
    recording: Recording | None = None  # of one call, whose answer is to be explained

    def with_store(self, store: ContextStateStore) -> ContextServices:
        """The services with another store in the place of the configured one."""
        return replace(self.services, state_store=store)

    def recorded(self) -> tuple[OpenContext, Recording]:
        """The same for one call, whose SELECT or COMPRESS leaves a receipt in the recording."""
        recording = Recording()
        return replace(self, recording=recording), recording

    def ping(self) -> None:
        """Ask the state server; raises what its client raises."""
        if self._ping is not None:
            self._ping()

    def close(self) -> None:
        """Close the client that was opened here; an injected store is the application's."""
        if self._close is not None:
            self._close()


def open_context(settings: Settings, services: Mapping[str, object]) -> OpenContext:
    """Open the domain. `services` are an extension's, named as the fields of ContextServices."""
    unknown = services.keys() - SERVICES
    if unknown:
        raise SettingsError("EXTENSION_INVALID", f"CONTEXT has no service {sorted(unknown)[0]}")
    given = _with_built_in(ContextServices(**services))  # type: ignore[arg-type]  # an extension's; each is checked where it answers
    policy = ContextPolicy.parse(_policy(settings))
    timeout_ms = settings.runtime.shards.mutation_timeout_ms
    entries = EntryLimit(settings.context.concurrency)
    url = settings.connections.context_redis_url
    if given.state_store is not None or url is None:
        return OpenContext(policy, given, timeout_ms, given.state_store, entries)
    client = open_state_client(url.get_secret_value())
    cache = settings.context.cache
    # The setting may ask for a longer memory, never for one that redelivered tasks could outlive.
    kept = max(cache.operation_ids, OPERATIONS_KEPT)
    open_store = partial(
        LinedContextStore, client, ttl_ms=cache.ttl_ms, key_prefix=cache.key_prefix, operation_ids=kept
    )
    unrenewing = open_store(renew_ttl=False)
    with_store = replace(given, state_store=open_store())
    return OpenContext(policy, with_store, timeout_ms, unrenewing, entries, client.close, client.ping)


def _with_built_in(given: ContextServices) -> ContextServices:
    """The strategies that every worker has by name. An extension overrides one by `NamedSelectors`."""
    return replace(
        given,
        selector=NamedSelectors.over({CONVERSATION: ConversationSelector()}, given.selector),
        compressor=NamedCompressors.over({CONVERSATION: ConversationCompressor()}, given.compressor),
    )


def _policy(settings: Settings) -> dict[str, object]:
    policy = settings.context.policy.model_dump(by_alias=True)
    return {name: value for name, value in policy.items() if value is not None}
