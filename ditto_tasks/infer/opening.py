"""Opens the INFER nodes of a worker from its settings and the application's services."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import cast

from ditto_tasks.errors import SettingsError
from ditto_tasks.infer.asking import InferDefaults
from ditto_tasks.infer.base import ModelProvider
from ditto_tasks.infer.models import Constraints
from ditto_tasks.infer.nodes import InferNodes
from ditto_tasks.infer.providers.extractive import ExtractiveProvider
from ditto_tasks.infer.sampling import BUILT_IN_PROVIDER
from ditto_tasks.infer.values import GenerationConfig
from ditto_tasks.settings import Provider, Settings

# kind -> class, imported only when configured: each needs its own extra
KINDS: Mapping[str, tuple[str, str]] = {
    "openai": ("ditto_tasks.infer.providers.openai_compatible", "OpenAiCompatibleProvider"),
    "anthropic": ("ditto_tasks.infer.providers.anthropic", "AnthropicProvider"),
}


def open_infer(settings: Settings, services: Mapping[str, object]) -> InferNodes:
    """Open the nodes; ``services["providers"]`` adds providers by name and wins over the settings."""
    given = cast("Mapping[str, ModelProvider]", services.get("providers", {}))
    configured = {name: open_provider(name, each) for name, each in settings.shared.providers.items()}
    providers = {BUILT_IN_PROVIDER: ExtractiveProvider(), **configured, **given}
    return InferNodes(providers, defaults=defaults_of(settings))


def defaults_of(settings: Settings) -> InferDefaults:
    """Return the worker's defaults."""
    infer = settings.infer
    return InferDefaults(
        provider=settings.connections.infer_model_provider,
        model=settings.connections.infer_model,
        timeout_ms=settings.runtime.timeout_ms,
        generation=GenerationConfig(
            **{**infer.generation.model_dump(), "stop": infer.generation.stop or None}
        ),
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
    path = f"DITTO_SHARED_PROVIDER_{name.upper()}_KIND"
    if provider.kind not in KINDS:
        raise SettingsError("INVALID_SETTING", f"{path}: no such kind of provider", {"path": path})
    module, attribute = KINDS[provider.kind]
    try:
        opener = cast("Callable[..., ModelProvider]", getattr(import_module(module), attribute))
    except ImportError as error:
        message = f"{path}: needs the extra ditto-tasks[{provider.kind}]"
        raise SettingsError("MISSING_EXTRA", message, {"path": path}) from error
    base_url = provider.base_url.get_secret_value() if provider.base_url else None
    api_key = provider.api_key.get_secret_value() if provider.api_key else None
    return opener(base_url=base_url, api_key=api_key, model=provider.model)
