"""Targets by name, each with its strategies."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ditto_tasks.errors import RetrievalError
from ditto_tasks.retrieval.base import RetrievalProvider

RAG: Final = "rag"  # the name of CONTEXT's strategy, which RETRIEVAL serves and never is


@dataclass(frozen=True)
class Target:
    """What can be searched, and how; ``default_strategy`` is one of ``providers``."""

    default_strategy: str
    providers: Mapping[str, RetrievalProvider]

    def __post_init__(self) -> None:
        if RAG in self.providers:
            raise _unsupported("rag is a strategy of CONTEXT.SELECT")
        if self.default_strategy not in self.providers:
            raise _unsupported("the default strategy has no provider")
        object.__setattr__(self, "providers", MappingProxyType(dict(self.providers)))


class TargetRegistry:
    """An immutable set of targets."""

    def __init__(self, targets: Mapping[str, Target]) -> None:
        self._targets = MappingProxyType(dict(targets))

    def provider(self, target: str, strategy: str | None) -> tuple[str, RetrievalProvider]:
        """The strategy that applies and its provider; raises for an unknown target or strategy."""
        if target not in self._targets:
            raise RetrievalError("RETRIEVAL_TARGET_NOT_FOUND", "no target is registered under this name")
        found = self._targets[target]
        applied = strategy or found.default_strategy
        if applied not in found.providers:
            raise _unsupported("the target has no such strategy")
        return applied, found.providers[applied]


def _unsupported(reason: str) -> RetrievalError:
    return RetrievalError("RETRIEVAL_STRATEGY_UNSUPPORTED", f"strategy: {reason}")
