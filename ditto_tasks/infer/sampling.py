"""One sample: which provider is asked, with what, and what of its answer is accepted. Pure."""

from collections.abc import Mapping

from ditto_tasks.errors import InferError
from ditto_tasks.infer.base import ModelProvider, ModelRequest
from ditto_tasks.infer.values import (
    ActionDescriptor,
    ActionRequest,
    GenerationConfig,
    ModelConfig,
    Sample,
    Usage,
)

BUILT_IN_PROVIDER = "extractive"  # needs no model, so it is never a choice beside a configured one


def choose_provider(providers: Mapping[str, ModelProvider], wanted: str | None, default: str | None) -> str:
    """Return the provider's name: the input's, else the default, else the only one there is."""
    name = wanted or default or _only(providers)
    if name not in providers:
        raise InferError("PROVIDER_NOT_FOUND", "no such model provider is registered")
    return name


def _only(providers: Mapping[str, ModelProvider]) -> str:
    configured = [name for name in providers if name != BUILT_IN_PROVIDER] or list(providers)
    if len(configured) != 1:
        raise InferError("PROVIDER_NOT_FOUND", "the input must name one of the registered model providers")
    return configured[0]


def check_endpoint(provider: ModelProvider, config: ModelConfig | None) -> None:
    """Refuse an endpoint that is not the provider's own: its credential is for that one only."""
    if config is None or config.endpoint is None:
        return
    own = provider.endpoint
    if own is None or own.rstrip("/") != config.endpoint.rstrip("/"):
        raise InferError("ENDPOINT_MISMATCH", "model.endpoint is not the endpoint of the chosen provider")


def choose_model(provider: ModelProvider, config: ModelConfig | None, default: str | None) -> str:
    """Return the model's name: the input's, else the worker's, else the provider's."""
    model = (config.model if config else None) or default or provider.default_model
    if model is None:
        raise InferError.invalid_input("/model", "no model is given and none is configured")
    return model


def merge_generation(given: GenerationConfig | None, defaults: GenerationConfig) -> GenerationConfig:
    """Return the caller's generation values over the worker's."""
    if given is None:
        return defaults
    return defaults.model_copy(update={name: getattr(given, name) for name in given.model_fields_set})


def accept_sample(answer: object, request: ModelRequest) -> Sample:
    """Return the provider's answer with only declared actions and their declared target nodes."""
    if not isinstance(answer, Sample):
        raise InferError("INVALID_MODEL_OUTPUT", "the provider's answer is not a sample")
    if answer.message.role != "assistant":
        raise InferError("INVALID_MODEL_OUTPUT", "the provider's answer is not an assistant message")
    declared = {action.name: action for action in request.actions}
    requests = tuple(_declared_request(item, declared) for item in answer.action_requests or ())
    _check_request_ids(requests)
    return answer.model_copy(update={"action_requests": requests or None})


def _declared_request(item: ActionRequest, declared: Mapping[str, ActionDescriptor]) -> ActionRequest:
    action = declared.get(item.name)
    if action is None:
        raise InferError("UNDECLARED_ACTION", "the model asked for an action that was not declared")
    return item.model_copy(update={"target_node": action.target_node})


def _check_request_ids(requests: tuple[ActionRequest, ...]) -> None:
    ids = [item.id for item in requests]
    if len(ids) != len(set(ids)):
        raise InferError("INVALID_MODEL_OUTPUT", "the model gave two action requests the same id")


def add_usage(total: Usage | None, more: Usage | None) -> Usage | None:
    """Add what was reported; a count that either side lacks is absent, never taken as zero."""
    if total is None or more is None:
        return None
    sums = {name: _sum(getattr(total, name), getattr(more, name)) for name in Usage.model_fields}
    return Usage(**sums)


def _sum(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left + right


def total_tokens(usage: Usage | None) -> int | None:
    """Return the reported total, or the sum of both reported parts, or None."""
    if usage is None:
        return None
    if usage.total_tokens is not None:
        return usage.total_tokens
    return _sum(usage.input_tokens, usage.output_tokens)
