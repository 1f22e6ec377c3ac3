"""Model providers that answer from a script, for tests of what is built on samples."""

from collections.abc import Callable

from ditto_tasks.infer.base import ModelRequest, ProviderCall
from ditto_tasks.infer.values import FinishReason, Message, Sample, Usage

Answer = Callable[[ModelRequest], object]


class ScriptedProvider:
    """Answers with a function of the request, and keeps every request."""

    endpoint = None

    def __init__(self, answer: Answer, default_model: str | None = "scripted") -> None:
        self._answer = answer
        self.default_model = default_model
        self.requests: list[ModelRequest] = []
        self.closed = False

    def sample(self, request: ModelRequest, call: ProviderCall) -> Sample:
        self.requests.append(request)
        call.remaining_s()
        return self._answer(request)  # type: ignore[return-value]  # some tests answer nonsense

    def close(self) -> None:
        self.closed = True


def text_sample(text: str, *, finish: FinishReason = "stop", tokens: int | None = None) -> Sample:
    """A sample with a text; ``tokens`` is its reported total."""
    usage = None if tokens is None else Usage(total_tokens=tokens)
    return Sample(message=Message(role="assistant", content=text), finish_reason=finish, usage=usage)


def in_turn(*answers: object) -> Answer:
    """Give one answer after the other: samples as they are, texts as samples, exceptions raised."""
    left = list(answers)

    def answer(_: ModelRequest) -> object:
        given = left.pop(0)
        if isinstance(given, Exception):
            raise given
        return text_sample(given) if isinstance(given, str) else given

    return answer


class FakeClock:
    """Time that passes only when it is told to, or when somebody waits."""

    def __init__(self) -> None:
        self.time_s = 100.0
        self.waits: list[float] = []

    def now(self) -> float:
        return self.time_s

    def wait(self, seconds: float, token: object) -> None:
        self.waits.append(seconds)
        self.time_s += seconds
