"""What handlers work with: stores and providers, opened from Settings on first use, once a process."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final, cast

from ditto_tasks.extensions import ExtensionFactory, OpenExtensions
from ditto_tasks.settings import Settings

if TYPE_CHECKING:
    from ditto_tasks.context.opening import OpenContext
    from ditto_tasks.infer.nodes import InferNodes
    from ditto_tasks.interaction.nodes import InteractionNodes
    from ditto_tasks.memory.nodes import MemoryNodes
    from ditto_tasks.retrieval.nodes import RetrievalNodes

# Imported when first asked for: a sender has no use for drivers, and an infer worker none for stores.
DOMAINS: Final = ("context", "memory", "infer", "interaction", "retrieval")


class Dependencies:
    """Lazily opened services, keyed by process: a forked child opens its own and closes only those."""

    def __init__(self, settings: Settings, extensions: Iterable[ExtensionFactory] = ()) -> None:
        self.settings = settings
        self._factories = tuple(extensions)
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._extensions: OpenExtensions | None = None
        self._opened: dict[str, object] = {}

    def context(self) -> OpenContext:
        """Store, policy and services of CONTEXT."""
        return cast("OpenContext", self.domain("context"))

    def memory(self) -> MemoryNodes:
        return cast("MemoryNodes", self.domain("memory"))

    def infer(self) -> InferNodes:
        return cast("InferNodes", self.domain("infer"))

    def interaction(self) -> InteractionNodes:
        return cast("InteractionNodes", self.domain("interaction"))

    def retrieval(self) -> RetrievalNodes:
        return cast("RetrievalNodes", self.domain("retrieval"))

    def bindings(self) -> Mapping[str, Callable[..., object]]:
        """The bindings that extensions registered."""
        with self._own_process():
            return self._open_extensions().bindings()

    def domain(self, name: str) -> object:
        """What `open_<domain>` of the domain's `opening` module gives."""
        opened = self._opened.get(name) if self._pid == os.getpid() else None
        if opened is not None:
            return opened
        with self._own_process():
            if name not in self._opened:
                services = self._open_extensions().services(name)
                self._opened[name] = _opener(name)(self.settings, services)
            return self._opened[name]

    def ping(self) -> dict[str, str]:
        """Ask every opened domain that can be asked; domain -> "ok" or the class of its error."""
        answers = {}
        for name, opened in list(self._opened.items()):
            ping = getattr(opened, "ping", None)
            if ping is not None:
                answers[name] = _answer(ping)
        return answers

    def close(self) -> None:
        """Close what this process opened, extensions last. Idempotent."""
        with self._own_process():
            for opened in reversed(list(self._opened.values())):
                close = getattr(opened, "close", None)
                if close is not None:
                    close()
            self._opened.clear()
            extensions, self._extensions = self._extensions, None
            if extensions is not None:
                extensions.close()

    def _open_extensions(self) -> OpenExtensions:
        if self._extensions is None:
            self._extensions = OpenExtensions(self.settings, self._factories)
        return self._extensions

    def _own_process(self) -> threading.RLock:
        if self._pid != os.getpid():
            self._lock = threading.RLock()  # the parent's may have been held by a thread that is not here
            self._pid, self._extensions, self._opened = os.getpid(), None, {}
        return self._lock


def _opener(domain: str) -> Callable[[Settings, Mapping[str, object]], object]:
    module = import_module(f"ditto_tasks.{domain}.opening")
    return cast("Callable[[Settings, Mapping[str, object]], object]", getattr(module, f"open_{domain}"))


def _answer(ping: Callable[[], object]) -> str:
    try:
        ping()
    except Exception as exc:  # noqa: BLE001 -- any failure is an answer here; its text may hold a credential
        return type(exc).__name__
    return "ok"
