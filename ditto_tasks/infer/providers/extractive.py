"""The built-in provider: quotes the selected context instead of asking a model, and says so."""

from collections.abc import Sequence

from ditto_tasks.context.text import estimated_tokens
from ditto_tasks.infer.base import ModelRequest, ProviderCall
from ditto_tasks.infer.passages import Passage, rank
from ditto_tasks.infer.text import message_text
from ditto_tasks.infer.values import FinishReason, Message, Sample

MAX_QUOTES = 5  # as many as a person reads at a glance
RELATIVE_FLOOR = 0.4  # of the best passage's score: what is far weaker answers another question
NOTICE = "No model is configured, so this is not an inferred answer."
FOUND = "The selected context says:"
NOTHING = "The selected context holds no sentence about the question."


class ExtractiveProvider:
    """Answers with the most relevant sentences of the context and the ids of their items."""

    repeatable = True
    endpoint = None
    default_model = "extractive"

    def sample(self, request: ModelRequest, call: ProviderCall) -> Sample:
        """Quote the context messages (metadata.contextItemId) that match the question; no usage."""
        call.remaining_s()
        question, texts = split_conversation(request.messages)
        passages = best_passages(question, texts)
        kept, reason = within_budget(passages, request.generation.max_tokens)
        text = answer_text(kept)
        if call.on_text is not None:
            call.on_text(text)
        cited = list(dict.fromkeys(item.source for item in kept))
        metadata = {"provider": "extractive", "citedItemIds": cited}
        message = Message.model_validate({"role": "assistant", "content": text, "metadata": metadata})
        return Sample(message=message, finish_reason=reason)

    def close(self) -> None:
        """Nothing is open."""


def split_conversation(messages: Sequence[Message]) -> tuple[str, list[tuple[str, str]]]:
    """Return the question, and (item id, text) of the context; the question does not answer itself."""
    question = message_text(_question(messages))
    texts = [(_item_id(message), message_text(message)) for message in messages]
    return question, [(key, text) for key, text in texts if key is not None and text != question]


def _question(messages: Sequence[Message]) -> Message:
    asked = [message for message in messages if message.role == "user" and _item_id(message) is None]
    return asked[-1] if asked else messages[-1]


def _item_id(message: Message) -> str | None:
    value = (message.metadata or {}).get("contextItemId")
    return value if isinstance(value, str) else None


def best_passages(question: str, texts: Sequence[tuple[str, str]]) -> list[Passage]:
    """Return the few passages worth quoting, best first."""
    ranked = rank(question, texts)
    return [item for item in ranked[:MAX_QUOTES] if item.score >= RELATIVE_FLOOR * ranked[0].score]


def within_budget(passages: list[Passage], max_tokens: int | None) -> tuple[list[Passage], FinishReason]:
    """Drop the weakest quotes until the answer fits; having dropped one is a ``length`` stop."""
    kept = list(passages)
    while max_tokens is not None and kept and _tokens(answer_text(kept)) > max_tokens:
        kept.pop()
    return kept, "stop" if len(kept) == len(passages) else "length"


def _tokens(text: str) -> int:
    """By CONTEXT's own estimate: without a model there is no other."""
    return estimated_tokens(len(text.encode("utf-8", "surrogatepass")))


def answer_text(passages: Sequence[Passage]) -> str:
    """Write the answer: the notice, then one quote a line with its item id."""
    if not passages:
        return f"{NOTICE} {NOTHING}"
    quotes = [f"- “{item.sentence}” [{item.source}]" for item in passages]
    return "\n".join([f"{NOTICE} {FOUND}", *quotes])
