"""The effect ledger: no external effect is executed twice on its own account.

    claimed -> executing -> settled
                         -> unknown (its executor's lease lapsed) -> settled late
            -> gone (it was stopped before it began)

A second delivery of the same step waits for the first to settle, or for its lease to lapse.
"""

import hashlib
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ditto_tasks.cancellation import admit_all
from ditto_tasks.canonical import canonical_json
from ditto_tasks.errors import InteractionError, StateBackendError
from ditto_tasks.interaction.base import Claim, EffectKey, EffectStore, EffectUnknownError
from ditto_tasks.json_values import JsonValue, decode, encode
from ditto_tasks.models import CancelToken

_log = logging.getLogger(__name__)

LEASE_MS: Final = 10_000  # how long a second delivery waits for an executor that died
TTL_MS: Final = 48 * 3_600_000  # longer than any broker goes on redelivering
POLL_S: Final = 0.1  # of a waiting delivery: the record has no notification
SETTLE_TRIES: Final = 5  # a lost settlement makes a done effect unknown, so it is worth insisting
SETTLE_PAUSE_S: Final = 0.2


class EffectLedger:
    """Runs effects at most once each, over a store of their records."""

    def __init__(self, store: EffectStore, *, lease_ms: int = LEASE_MS) -> None:
        self._store = store
        self._renew_s = lease_ms / 3000

    def once(
        self,
        key: EffectKey,
        inputs: JsonValue,
        effect: Callable[[], JsonValue],
        *,
        token: CancelToken,
        repeat_unknown: bool = False,
        admit: Callable[[], None] = admit_all,
    ) -> JsonValue:
        """Return the recorded result of the effect, or run it and record its result.

        ``inputs`` identify the effect: others under the same key are refused with CONFLICT. Raises
        EffectUnknownError when an earlier execution ended nobody knows how. What is recorded is answered
        whatever ``token`` and ``admit`` say: only an effect that is still to be begun is stopped by them.
        """
        holder = uuid.uuid4().hex
        claim = self._claim(key, digest_of(inputs), holder, token, repeat_unknown)
        if claim.state == "settled" and claim.result is not None:
            return decode(claim.result)
        if claim.state == "conflict":
            raise InteractionError("CONFLICT", "another effect was recorded for this step")
        if claim.state == "unknown" or not self._begun(key, holder, token, admit):
            raise EffectUnknownError("OUTCOME_UNKNOWN", "the effect began, and its outcome is unknown")
        with self._renewing(key, holder):
            result = effect()
        self._settle(key, holder, encode(result))
        return result

    def _claim(
        self, key: EffectKey, digest: str, holder: str, token: CancelToken, repeat_unknown: bool
    ) -> Claim:
        while True:
            claim = self._store.claim(key, digest=digest, holder=holder, repeat=repeat_unknown)
            if claim.state != "busy":
                return claim
            token.raise_if_cancelled()
            time.sleep(min(POLL_S, claim.wait_ms / 1000))

    def _begun(self, key: EffectKey, holder: str, token: CancelToken, admit: Callable[[], None]) -> bool:
        """Begin the effect, unless it is not to be begun; False if the claim was lost."""
        try:
            token.raise_if_cancelled()
            admit()
        except BaseException:
            self._release(key, holder)
            raise
        return self._store.execute(key, holder=holder)

    def _release(self, key: EffectKey, holder: str) -> None:
        try:
            self._store.release(key, holder=holder)
        except StateBackendError as error:  # the claim's lease lapses by itself
            _log.warning("an effect's claim was not released: %s", error.code)

    @contextmanager
    def _renewing(self, key: EffectKey, holder: str) -> Iterator[None]:
        ended = threading.Event()
        renewer = threading.Thread(target=self._renew, args=(key, holder, ended), daemon=True)
        renewer.start()
        try:
            yield
        finally:
            ended.set()
            renewer.join()

    def _renew(self, key: EffectKey, holder: str, ended: threading.Event) -> None:
        while not ended.wait(self._renew_s):
            try:
                if not self._store.renew(key, holder=holder):
                    return
            except StateBackendError as error:
                # the next turn tries again; should the lease lapse, settling late says so
                _log.warning("an effect's lease was not renewed: %s", error.code)

    def _settle(self, key: EffectKey, holder: str, result: bytes) -> None:
        for attempt in range(SETTLE_TRIES):
            try:
                state = self._store.settle(key, holder=holder, result=result)
            except StateBackendError as error:
                _log.warning("an effect was not settled (try %d): %s", attempt + 1, error.code)
                time.sleep(SETTLE_PAUSE_S)
                continue
            if state != "settled":
                _log.warning("an effect was settled too late: %s", state)
            return


def digest_of(inputs: JsonValue) -> str:
    """Return a digest that tells inputs apart."""
    return hashlib.sha256(canonical_json(inputs).encode("utf-8")).hexdigest()
