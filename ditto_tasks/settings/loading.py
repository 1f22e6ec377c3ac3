"""File and environment to one frozen Settings. The only module that reads the process environment."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeVar

from pydantic import BaseModel, ValidationError

from ditto_tasks.settings.checks import check
from ditto_tasks.settings.connections import Connections, FromEnvironment, Sandbox, Startup
from ditto_tasks.settings.credentials import with_credentials
from ditto_tasks.settings.snapshot import (
    Document,
    Provider,
    ProviderConnection,
    ProviderTuning,
    Settings,
    Shared,
)
from ditto_tasks.settings.yaml import invalid, read_yaml

M = TypeVar("M", bound=BaseModel)
OWN_TEXT: Final = "Value error, "  # what pydantic puts before the text of a validator
E = TypeVar("E", bound=FromEnvironment)


def load_settings(path: Path | str | None = None, env: Mapping[str, str] | None = None) -> Settings:
    """Read settings once.

    `path` names the file; without it DITTO_CONFIG does (a comma-separated list, the later file winning over
    the earlier key by key), and without both every key has its default. `env` is the process environment
    unless given; DITTO_CREDENTIALS adds a folder of files that are named as variables. Raises SettingsError,
    whose details hold the path of the key.
    """
    variables = with_credentials(os.environ if env is None else env)
    startup = _from_environment(Startup, variables)
    files = [Path(path)] if path is not None else [Path(name) for name in startup.config]
    document = _document(files)
    return check(_snapshot(document, startup, variables))


def default_settings(env: Mapping[str, str] | None = None) -> Settings:
    """The built-in defaults with the connections of `env`; by default with none."""
    variables = dict(env or {})
    variables.pop("DITTO_CONFIG", None)
    return load_settings(None, variables)


def child_environment(changes: Mapping[str, str]) -> dict[str, str]:
    """The environment of this process with `changes`, for a process that it starts."""
    return {**os.environ, **changes}


def unknown_variables(env: Mapping[str, str] | None = None) -> list[str]:
    """DITTO_* variables that are set and that nothing reads: probably misspelt."""
    variables = with_credentials(os.environ if env is None else env)
    startup = _from_environment(Startup, variables)
    suffixes = ProviderConnection.variables()
    known = {
        *environment_variables(),
        *(_provider_variable(n, s) for n in startup.providers for s in suffixes),
    }
    return sorted(name for name in variables if name.startswith("DITTO_") and name not in known)


def environment_variables() -> tuple[str, ...]:
    """Every variable that Ditto reads; `<NAME>` stands for a provider listed in DITTO_SHARED_PROVIDERS."""
    plain = [name for group in (Startup, Connections, Sandbox) for name in group.variables()]
    return (*plain, *(_provider_variable("<NAME>", suffix) for suffix in ProviderConnection.variables()))


def _snapshot(document: Document, startup: Startup, env: Mapping[str, str]) -> Settings:
    workers = document.workers
    return Settings(
        runtime=document.runtime,
        shared=Shared(providers=_providers(document, startup, env), sandbox=_from_environment(Sandbox, env)),
        context=workers.context,
        memory=workers.memory,
        infer=workers.infer,
        interaction=workers.interaction,
        retrieval=workers.retrieval,
        connections=_from_environment(Connections, env),
        extensions=startup.extensions,
    )


def _document(files: list[Path]) -> Document:
    merged: dict[str, object] = {}
    for file in files:
        merged = overlay(merged, read_yaml(file))
    return _validate(Document, merged)


def overlay(base: Mapping[str, object], over: Mapping[str, object]) -> dict[str, object]:
    """`base` with the keys of `over`: mappings are merged at every level, anything else is replaced."""
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        merged[key] = overlay(below, value) if both else value  # type: ignore[arg-type]  # both are mappings
    return merged


def _providers(document: Document, startup: Startup, env: Mapping[str, str]) -> dict[str, Provider]:
    tuning = document.shared.providers
    return {
        name: Provider(
            **dict(_provider_connection(name, env)),
            timeout_ms=tuning.get(name, ProviderTuning()).timeout_ms,
        )
        for name in startup.providers
    }


def _provider_connection(name: str, env: Mapping[str, str]) -> ProviderConnection:
    suffixes = ProviderConnection.variables()
    values = {suffix: env.get(_provider_variable(name, suffix), "") for suffix in suffixes}
    given = {suffix: value for suffix, value in values.items() if value}
    return _validate(ProviderConnection, given, prefix=_provider_variable(name, ""))


def _provider_variable(name: str, suffix: str) -> str:
    upper = name.upper().replace("-", "_").replace(".", "_")
    return f"DITTO_SHARED_PROVIDER_{upper}_{suffix}"


def _from_environment(model: type[E], env: Mapping[str, str]) -> E:
    # an empty variable counts as unset: Compose writes one for every variable that it passes on
    return _validate(model, {name: env[name] for name in model.variables() if env.get(name)})


def _validate(model: type[M], values: Mapping[str, object], *, prefix: str = "") -> M:
    try:
        return model.model_validate(values, by_alias=True, by_name=False)
    except ValidationError as exc:
        first = exc.errors(include_input=False, include_context=False, include_url=False)[0]
        path = prefix + ".".join(str(part) for part in first["loc"])
        raise invalid(path, _reason(first["type"], first["msg"])) from None


def _reason(kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        return "is not a setting"
    if kind == "missing":
        return "is missing"
    message = message.removeprefix(OWN_TEXT)
    return message[:1].lower() + message[1:]
