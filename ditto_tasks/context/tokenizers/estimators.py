"""Token estimators to inject as `ContextServices(token_estimator=…)`; without one it is bytes by four."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from ditto_tasks.context.base import ContextExecution
from ditto_tasks.context.tokenizers.correction import Correction
from ditto_tasks.context.tokenizers.counting import Counter, TextCount
from ditto_tasks.context.tokenizers.models import rules_of
from ditto_tasks.context.tokenizers.splintr import Vocabulary
from ditto_tasks.json_values import JsonObject, JsonValue

CACHED_TEXTS = 2_048  # a context's items are counted again for every SELECT and COMPRESS
_CACHED_CHARACTERS = 8_192  # of a text that is worth its memory


@dataclass(frozen=True)
class ModelEstimator:
    """Counts as `model` does: with its vocabulary (extra `tokens`), or calibrated rates if `exact` is off.

    A content counts as a message of its own, with tool calls, images and audio by the model's rules.
    """

    model: str
    exact: bool = True
    correction: Correction = field(default_factory=Correction)

    def estimate(self, content: JsonValue, _execution: ContextExecution | None = None) -> int:
        """Tokens of an item's content, corrected by what was learned."""
        return self.correction.apply(self._counter.message(content))

    def count_request(
        self,
        messages: Iterable[JsonObject],
        *,
        tools: Iterable[JsonObject] = (),
        system: JsonValue = None,
    ) -> int:
        """Tokens of a provider's request as it is sent, corrected by what was learned."""
        return self.correction.apply(self._counter.request(messages, tools, system))

    def learned(
        self,
        reported: int,
        messages: Iterable[JsonObject],
        *,
        tools: Iterable[JsonObject] = (),
        system: JsonValue = None,
    ) -> ModelEstimator:
        """The estimator that knows how many input tokens a provider reported for this request."""
        raw = self._counter.request(messages, tools, system)
        return replace(self, correction=self.correction.learned(raw, reported))

    @cached_property
    def _counter(self) -> Counter:
        rules = rules_of(self.model)
        count = Vocabulary(rules.encoding).count if self.exact else rules.rates.count
        return Counter(_remembered(count), rules)


def _remembered(count: TextCount) -> TextCount:
    remembering = lru_cache(CACHED_TEXTS)(count)
    return lambda text: remembering(text) if len(text) <= _CACHED_CHARACTERS else count(text)
