"""How an application gives workers its own services, registries and bindings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TypeAlias

from ditto_tasks.errors import SettingsError
from ditto_tasks.settings import Settings

Services: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Extension:
    """What one factory gives: services by name for each domain, pure bindings by name, and how to close."""

    context: Services = field(default_factory=dict)
    memory: Services = field(default_factory=dict)
    infer: Services = field(default_factory=dict)
    interaction: Services = field(default_factory=dict)
    retrieval: Services = field(default_factory=dict)
    bindings: Mapping[str, Callable[..., object]] = field(default_factory=dict)
    close: Callable[[], None] | None = None


ExtensionFactory: TypeAlias = Callable[[Settings], Extension]


def load_factory(name: str) -> ExtensionFactory:
    """The factory that DITTO_EXTENSIONS names as `package.module:factory`."""
    module, _, attribute = name.partition(":")
    try:
        found = import_module(module)
    except Exception as exc:  # an application's code, whatever it raises
        raise _not_found(f"{module} can't be imported ({import_problem(exc)})") from exc
    if not hasattr(found, attribute):
        raise _not_found(f"{module} has no {attribute}")
    factory: ExtensionFactory = getattr(found, attribute)
    if not callable(factory):
        raise _not_found(f"{name} is not callable")
    return factory  # its answer is checked where it is called


def import_problem(error: Exception) -> str:
    """What may be said of an import that failed: which module is missing, or the class of what it raised."""
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    return f"there is no module {missing}" if missing else type(error).__name__


def _not_found(reason: str) -> SettingsError:
    path = "DITTO_EXTENSIONS"
    return SettingsError("EXTENSION_NOT_FOUND", f"{path}: {reason}", {"path": path})


class OpenExtensions:
    """The extensions of one process, in order: what a later one gives wins over an earlier one's."""

    def __init__(self, settings: Settings, factories: Iterable[ExtensionFactory]) -> None:
        self._opened: list[Extension] = []
        try:
            for factory in factories:
                self._opened.append(_opened(factory, settings))
        except BaseException:
            self.close()
            raise

    def services(self, domain: str) -> dict[str, object]:
        """The services of a domain, by name."""
        merged: dict[str, object] = {}
        for extension in self._opened:
            merged.update(getattr(extension, domain, {}))  # batch runs take no services
        return merged

    def bindings(self) -> dict[str, Callable[..., object]]:
        """The registered pure functions between steps, by name."""
        return {name: bound for extension in self._opened for name, bound in extension.bindings.items()}

    def close(self) -> None:
        """Close in reverse order; every one is closed, and the first error is raised at the end."""
        failures: list[Exception] = []
        while self._opened:
            close = self._opened.pop().close
            try:
                if close is not None:
                    close()
            except Exception as exc:  # noqa: BLE001 -- an application's code; the others must be closed too
                failures.append(exc)
        if failures:
            raise failures[0]


def _opened(factory: ExtensionFactory, settings: Settings) -> Extension:
    extension = factory(settings)
    if not isinstance(extension, Extension):
        raise SettingsError("EXTENSION_INVALID", f"an extension factory returned {type(extension).__name__}")
    return extension
