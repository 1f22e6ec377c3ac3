"""Which vocabulary, overheads and media rules a model has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from ditto_tasks.context.tokenizers.media import ANTHROPIC_RULE, MediaRule
from ditto_tasks.context.tokenizers.scripts import CL100K, O200K, ScriptRates
from ditto_tasks.errors import SettingsError


@dataclass(frozen=True, slots=True)
class ModelRules:
    """What a model's tokens are counted by. Overheads are tokens: of a message's frame, of a call's, of the
    answer's beginning, and of each tool's definition beside its texts.
    """

    encoding: str
    rates: ScriptRates = O200K
    message: int = 3
    name: int = 1
    call: int = 8
    answer: int = 3
    tool: int = 12
    media: MediaRule = field(default_factory=MediaRule)


# By the beginning of the name, the longest that fits. Sources: OpenAI's cookbook on counting tokens, the
# chat templates of the open models. Anthropic publishes no vocabulary: o200k stands in, and reported usage
# corrects it.
_RULES: Final = {
    "gpt-": ModelRules("o200k_base"),
    "gpt-4o-mini": ModelRules("o200k_base", media=MediaRule(base=2_833, tile=5_667, unknown=25_501)),
    "gpt-5": ModelRules("o200k_base", media=MediaRule(base=70, tile=140, unknown=630)),
    "gpt-4": ModelRules("cl100k_base", CL100K),
    "gpt-4o": ModelRules("o200k_base"),
    "gpt-4.": ModelRules("o200k_base"),
    "gpt-3.5": ModelRules("cl100k_base", CL100K),
    "gpt-oss": ModelRules("gpt-oss", message=4),
    "o1": ModelRules("o200k_base", media=MediaRule(base=75, tile=150, unknown=675)),
    "o3": ModelRules("o200k_base", media=MediaRule(base=75, tile=150, unknown=675)),
    "o4": ModelRules("o200k_base"),
    "claude": ModelRules("o200k_base", message=4, call=12, tool=14, media=ANTHROPIC_RULE),
    "llama-3": ModelRules("llama3", message=5),
    "llama3": ModelRules("llama3", message=5),
    "qwen": ModelRules("qwen3", message=5),
    "deepseek": ModelRules("deepseek_v3", message=2),
    "mistral": ModelRules("mistral_v3", message=4),
    "glm": ModelRules("glm4", message=2),
    "kimi": ModelRules("kimi", message=4),
    "phi-4": ModelRules("phi4", CL100K, message=4),
}


def rules_of(model: str) -> ModelRules:
    """The rules of a model by its name, with or without a provider in front of it."""
    name = model.rpartition("/")[2].lower()
    fitting = max((each for each in _RULES if name.startswith(each)), key=len, default=None)
    if fitting is None:
        raise SettingsError("UNKNOWN_MODEL", f"no tokenizer is known for the model {model}")
    return _RULES[fitting]
