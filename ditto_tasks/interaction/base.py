"""Ports of INTERACTION."""

from dataclasses import dataclass
from typing import Literal, Protocol

from ditto_tasks.errors import DittoError

ClaimState = Literal["claimed", "busy", "settled", "unknown", "conflict"]


class EffectUnknownError(DittoError):
    """An effect began and nobody knows how it ended; it is not repeated (code OUTCOME_UNKNOWN)."""


@dataclass(frozen=True, kw_only=True)
class EffectKey:
    """Names one external effect: whose it is, the step that causes it, and its position in the step."""

    owner: str
    step: str
    position: int


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a claim met. ``result`` with settled, ``wait_ms`` (until the holder's lease lapses) with busy."""

    state: ClaimState
    result: bytes | None = None
    wait_ms: int = 0


class EffectStore(Protocol):
    """Records of effects. Each operation is atomic and may be repeated by the same holder.

    Raises StateBackendError when the server can't be asked. Results are opaque bytes.
    """

    def claim(self, key: EffectKey, *, digest: str, holder: str, repeat: bool) -> Claim:
        """Claim the effect for ``holder``, or say what became of it; a lapsed execution becomes unknown."""
        ...

    def execute(self, key: EffectKey, *, holder: str) -> bool:
        """Mark the claimed effect as possibly done from now on; False if the claim was lost."""
        ...

    def renew(self, key: EffectKey, *, holder: str) -> bool:
        """Extend the lease of the running effect; False if it was lost."""
        ...

    def settle(self, key: EffectKey, *, holder: str, result: bytes) -> Literal["settled", "late", "lost"]:
        """Record the result, also one that comes after the effect was given up as unknown."""
        ...
