"""Several selectors or compressors behind one service, told apart by the name in the strategy."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from ditto_tasks.context.base import (
    ContextCompressor,
    ContextExecution,
    ContextSelector,
    ContextServices,
    Items,
)
from ditto_tasks.context.inputs import CompressInput, SelectInput, SelectStrategy
from ditto_tasks.context.models import Context
from ditto_tasks.errors import ContextError
from ditto_tasks.json_values import JsonObject

ServiceT = TypeVar("ServiceT")


@dataclass(frozen=True, slots=True)
class NamedSelectors:
    """Serves each name with its selector, and every other one with `otherwise`."""

    by_name: Mapping[str, ContextSelector]
    otherwise: ContextSelector | None = None

    def find(self, strategy: SelectStrategy | None) -> ContextSelector | None:
        """The selector that the strategy names; None if there is none."""
        return self.by_name.get(_name(strategy), self.otherwise)

    def select(self, request: SelectInput, execution: ContextExecution) -> Items | Awaitable[Items]:
        return _present(self.find(request.strategy), request.strategy).select(request, execution)

    @classmethod
    def over(cls, built_in: Mapping[str, ContextSelector], given: ContextSelector | None) -> NamedSelectors:
        """An application's selector, which wins over what is built in where it has the same name."""
        if isinstance(given, cls):
            return cls({**built_in, **given.by_name}, given.otherwise)
        return cls(built_in, given)


@dataclass(frozen=True, slots=True)
class NamedCompressors:
    """Serves each name with its compressor, and every other call with `otherwise` or the default."""

    by_name: Mapping[str, ContextCompressor]
    otherwise: ContextCompressor | None = None

    def find(self, strategy: SelectStrategy | None) -> ContextCompressor | None:
        """The compressor for a call; None is the default one. A name that nobody has is refused."""
        found = self.by_name.get(_name(strategy), self.otherwise)
        return found if strategy is None else _present(found, strategy)

    def compress(
        self, request: CompressInput, execution: ContextExecution
    ) -> Context | JsonObject | Awaitable[Context | JsonObject]:
        return _present(self.find(request.strategy), request.strategy).compress(request, execution)

    @classmethod
    def over(
        cls, built_in: Mapping[str, ContextCompressor], given: ContextCompressor | None
    ) -> NamedCompressors:
        """An application's compressor, which wins over what is built in where it has the same name."""
        if isinstance(given, cls):
            return cls({**built_in, **given.by_name}, given.otherwise)
        return cls(built_in, given)


def the_selector(services: ContextServices, strategy: SelectStrategy | None) -> ContextSelector | None:
    """Who serves a strategy of the kind "provider"."""
    found = services.selector
    return found.find(strategy) if isinstance(found, NamedSelectors) else found


def the_compressor(services: ContextServices, strategy: SelectStrategy | None) -> ContextCompressor | None:
    """Who serves a call of COMPRESS; None is the default."""
    found = services.compressor
    return found.find(strategy) if isinstance(found, NamedCompressors) else found


def _name(strategy: SelectStrategy | None) -> str:
    return "" if strategy is None else strategy.name or ""


def _present(service: ServiceT | None, strategy: SelectStrategy | None) -> ServiceT:
    if service is None:
        raise ContextError("STRATEGY_UNAVAILABLE", f"no strategy is named {_name(strategy) or 'so'}")
    return service
