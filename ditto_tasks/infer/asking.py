"""Asks providers within one call's limits: choice, deadline, retries, recording, checks of the answer."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from ditto_tasks.errors import DittoError, InferError, raised
from ditto_tasks.infer.base import (
    InferCall,
    ModelProvider,
    ModelRequest,
    ProviderCall,
    TransientProviderError,
)
from ditto_tasks.infer.models import Constraints, DeliberationMode
from ditto_tasks.infer.sampling import (
    accept_sample,
    check_endpoint,
    choose_model,
    choose_provider,
    merge_generation,
)
from ditto_tasks.infer.values import ActionDescriptor, GenerationConfig, Message, ModelConfig, Sample
from ditto_tasks.json_values import JsonObject
from ditto_tasks.models import CancelToken

_log = logging.getLogger(__name__)

FIRST_BACKOFF_S = 0.5  # doubled at each retry, unless the provider says when
LONGEST_BACKOFF_S = 30.0
CANCEL_POLL_S = 0.05  # how late a cancellation may be noticed while waiting


@dataclass(frozen=True, kw_only=True)
class InferDefaults:
    """The worker's own values, used where a call gives none."""

    provider: str | None = None
    model: str | None = None
    timeout_ms: int = 30_000
    provider_timeouts_ms: Mapping[str, int] = field(default_factory=dict)
    generation: GenerationConfig = field(default_factory=GenerationConfig)
    constraints: Constraints = field(default_factory=Constraints)
    deliberate_mode: DeliberationMode = "select"
    select_count: int = 1
    deliberate_max_tokens: int = 4096
    strategies: Mapping[str, JsonObject] = field(default_factory=dict)

    @property
    def longest_ms(self) -> int:
        """How long a node may take that asks any of the providers."""
        return max(self.timeout_ms, *self.provider_timeouts_ms.values(), 0)


class Clock(Protocol):
    """Monotonic time, and a wait that ends early when the token is cancelled."""

    def now(self) -> float:
        """Seconds."""
        ...

    def wait(self, seconds: float, token: CancelToken) -> None:
        """Return after ``seconds`` or soon after the token is cancelled."""
        ...


class SystemClock:
    """The process's monotonic clock."""

    now = staticmethod(time.monotonic)

    def wait(self, seconds: float, token: CancelToken) -> None:
        """Wait in slices: a token has no event of its own."""
        end, idle = self.now() + seconds, threading.Event()
        while not token.cancelled and (left := end - self.now()) > 0:
            idle.wait(min(CANCEL_POLL_S, left))


@dataclass(frozen=True, kw_only=True)
class Asker:
    """One node call's way to its models. ``deadline_s`` is on ``clock``."""

    providers: Mapping[str, ModelProvider]
    defaults: InferDefaults
    call: InferCall
    clock: Clock
    deadline_s: float

    def check(self) -> None:
        """Raise when the call is cancelled or out of time."""
        self._limits().remaining_s()

    def admit(self) -> None:
        """Raise when no model is to be asked any more."""
        self.call.admit()
        self.check()

    def is_over(self) -> bool:
        """Whether a call that waits for its turn goes on without one: it asks only its records."""
        if self.call.once is None:
            self.check()
        return self.call.token.cancelled or self.clock.now() >= self.deadline_s

    def within(self, timeout_ms: int | None) -> "Asker":
        """The same call with a nearer deadline."""
        if timeout_ms is None:
            return self
        return replace(self, deadline_s=min(self.deadline_s, self.clock.now() + timeout_ms / 1000))

    def ask(
        self,
        messages: tuple[Message, ...],
        *,
        model: ModelConfig | None,
        generation: GenerationConfig | None = None,
        actions: tuple[ActionDescriptor, ...] | None = None,
    ) -> Sample:
        """Return one checked sample; raises InferError."""
        provider, request = self._request(messages, model, generation, actions or ())
        effect = partial(self._for_provider(request.provider)._answer, provider, request)
        if self.call.once is None or getattr(provider, "repeatable", False):
            self.admit()
            return effect()
        return self.call.once(request, effect, self.admit)

    def _for_provider(self, name: str) -> "Asker":
        """The same call within the provider's own timeout, unless the caller set one."""
        if self.call.timeout_ms is not None:
            return self
        return self.within(self.defaults.provider_timeouts_ms.get(name, self.defaults.timeout_ms))

    def _request(
        self,
        messages: tuple[Message, ...],
        model: ModelConfig | None,
        generation: GenerationConfig | None,
        actions: tuple[ActionDescriptor, ...],
    ) -> tuple[ModelProvider, ModelRequest]:
        name = choose_provider(self.providers, model.provider if model else None, self.defaults.provider)
        provider = self.providers[name]
        check_endpoint(provider, model)
        default_model = self.defaults.model if self.defaults.provider in (None, name) else None
        request = ModelRequest(
            provider=name,
            model=choose_model(provider, model, default_model),
            messages=messages,
            generation=merge_generation(generation, self.defaults.generation),
            actions=actions,
            provider_options=(model.provider_options if model else None) or {},
        )
        return provider, request

    def _answer(self, provider: ModelProvider, request: ModelRequest) -> Sample:
        return accept_sample(self._with_retries(partial(self._once, provider, request)), request)

    def _with_retries(self, ask: Callable[[], Sample]) -> Sample:
        for attempt in range(self.call.retries):
            try:
                return ask()
            except TransientProviderError as error:
                self._back_off(error, attempt)
        return ask()

    def _back_off(self, error: TransientProviderError, attempt: int) -> None:
        asked = (error.details or {}).get("retryAfterMs")
        delay_s = asked / 1000 if isinstance(asked, int | float) else FIRST_BACKOFF_S * 2**attempt
        if delay_s > LONGEST_BACKOFF_S or delay_s >= self._limits().remaining_s():
            raise error
        self.clock.wait(delay_s, self.call.token)
        self.check()

    def _once(self, provider: ModelProvider, request: ModelRequest) -> Sample:
        try:
            return provider.sample(request, self._limits())
        except DittoError:
            raise
        except Exception as error:  # a provider is foreign code: its own error text may hold anything
            self.call.token.raise_if_cancelled()
            _log.warning("the provider %s met %s", request.provider, raised(error))
            raise InferError("MODEL_ERROR", "the model provider failed") from error

    def _limits(self) -> ProviderCall:
        return ProviderCall(
            token=self.call.token, deadline_s=self.deadline_s, now=self.clock.now, on_text=self._on_text()
        )

    def _on_text(self) -> Callable[[str], None] | None:
        emit = self.call.emit
        return None if emit is None else lambda text: emit({"type": "text_delta", "text": text})
