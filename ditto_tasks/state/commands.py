"""What the store asks of a client: one read, one script call, and what a failure of them means."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ditto_tasks.errors import StateBackendError
from ditto_tasks.state.scripts import Script


@dataclass(frozen=True, slots=True)
class IndexNote:
    """That the scope index should name a scope for the next `ttl_ms`."""

    key: str
    member: bytes
    ttl_ms: int


class Commands(Protocol):
    """A client as the store sees it; its own errors pass through."""

    one_server: bool  # so that a script may look at any key

    def get(self, key: str) -> bytes | None:
        """The bytes of a string, or None."""

    def run(
        self,
        script: Script,
        keys: Sequence[str],
        arguments: Sequence[str | bytes],
        note: IndexNote | None = None,
    ) -> object:
        """The script's reply. The note is written with it, and its failure is no failure of the script."""

    def is_refusal(self, error: Exception) -> bool:
        """Did the server answer, so that the script is known to have had no effect?"""

    def translate(self, error: Exception) -> StateBackendError:
        """The typed error for one of the client's own; it holds no content and no address."""


class ForeignClient(Protocol):
    """The least that a client of another library has to offer."""

    def get(self, key: str) -> bytes | str | None: ...

    def eval(self, script: str, keys: list[str], args: list[str]) -> object: ...


class ForeignCommands:
    """Any client with `get` and `eval`: whole scripts, text arguments, no scope index."""

    one_server = False  # for all that is known

    def __init__(self, client: ForeignClient) -> None:
        self._client = client

    def get(self, key: str) -> bytes | None:
        return as_bytes(self._client.get(key))

    def run(
        self,
        script: Script,
        keys: Sequence[str],
        arguments: Sequence[str | bytes],
        note: IndexNote | None = None,  # noqa: ARG002 -- there is no index on such a client
    ) -> object:
        texts = [value.decode() if isinstance(value, bytes) else value for value in arguments]
        return self._client.eval(script.text, list(keys), texts)

    def is_refusal(self, error: Exception) -> bool:  # noqa: ARG002 -- the protocol's parameter
        return False  # nothing is known about its errors: each may be a lost reply

    def translate(self, error: Exception) -> StateBackendError:
        return unavailable(error)


def as_bytes(value: bytes | str | None) -> bytes | None:
    """The bytes of a reply, whether or not its client decodes them."""
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


def unavailable(error: Exception) -> StateBackendError:
    """The typed error of a server that cannot be reached or cannot serve for now."""
    return StateBackendError(
        "STATE_BACKEND_UNAVAILABLE", f"the state store cannot be reached ({type(error).__name__})"
    )
