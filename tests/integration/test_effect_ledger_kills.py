"""Executors killed at every point of an effect: it happens at most once, and the next delivery learns it."""

import os
import random
import signal
import sys

import pytest
from support.forks import in_a_fork

from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.interaction.base import Claim, EffectKey, EffectUnknownError
from ditto_tasks.interaction.ledger import EffectLedger
from ditto_tasks.interaction.stores.redis import RedisEffectStore
from ditto_tasks.json_values import JsonValue
from ditto_tasks.models import CancelToken
from ditto_tasks.state.redis import open_state_client

LEASE_MS = 120
ROUNDS = 24
# point of the kill -> how often the effect has happened in the end, and what the next delivery learns
POINTS = {
    "before claim": (1, "settled"),
    "after claim": (1, "settled"),
    "executing": (0, "unknown"),
    "after the effect": (1, "unknown"),
    "after settle": (1, "settled"),
}


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class MortalStore(RedisEffectStore):
    """The real store, whose process dies at one point."""

    def __init__(self, url: str, point: str) -> None:
        super().__init__(open_state_client(url), deployment="t", lease_ms=LEASE_MS, ttl_ms=60_000)
        self.point = point

    def claim(self, key: EffectKey, *, digest: str, holder: str, repeat: bool) -> Claim:
        self._dies("before claim")
        claim = super().claim(key, digest=digest, holder=holder, repeat=repeat)
        self._dies("after claim")
        return claim

    def execute(self, key: EffectKey, *, holder: str) -> bool:
        executing = super().execute(key, holder=holder)
        self._dies("executing")
        return executing

    def settle(self, key: EffectKey, *, holder: str, result: bytes) -> str:  # type: ignore[override]  # as its parent
        self._dies("after the effect")
        state = super().settle(key, holder=holder, result=result)
        self._dies("after settle")
        return state

    def _dies(self, point: str) -> None:
        if point == self.point:
            die()


def deliver(url: str, step: str, point: str = "") -> JsonValue:
    """One delivery of a step whose effect is to count itself in Redis."""
    counter = open_state_client(url)

    def effect() -> JsonValue:
        return int(counter.incr(f"done:{step}"))

    ledger = EffectLedger(MortalStore(url, point), lease_ms=LEASE_MS)
    key = EffectKey(owner="", step=step, position=0)
    try:
        return ledger.once(key, {"step": step}, effect, token=CancelToken())
    finally:
        counter.close()


def outcome(url: str, step: str) -> str:
    try:
        deliver(url, step)
    except EffectUnknownError:
        return "unknown"
    return "settled"


@pytest.mark.timeout(300)  # 120 deaths, of which half wait for a lease
def test_at_most_once_under_kills(server: EmbeddedServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Over 120 kills, 24 at each point, no effect happens twice and each next delivery learns the outcome."""
    url, kills = server.redis_url(0), 0
    counter = open_state_client(url)
    for number in range(ROUNDS):
        for point, (times, learned) in POINTS.items():
            step = f"{point} {number}"
            code = in_a_fork(lambda step=step, point=point: deliver(url, step, point))
            assert code == -signal.SIGKILL
            kills += 1
            assert outcome(url, step) == learned, point
            assert int(counter.get(f"done:{step}") or 0) == times, point
    _forget(counter)
    with capsys.disabled():
        sys.stdout.write(f"\neffect ledger: {kills} executors killed, no effect happened twice\n")
    assert kills >= 100


def test_at_most_once_under_kills_at_random_times(server: EmbeddedServer) -> None:
    """Executors killed at any moment leave at most one effect, and later deliveries agree on its outcome."""
    url, moments = server.redis_url(0), random.Random(7)  # noqa: S311 - moments of kills, no secret
    counter = open_state_client(url)
    for number in range(20):
        delay_s = moments.uniform(0.0005, 0.02)

        def work(number: int = number, delay_s: float = delay_s) -> None:
            signal.setitimer(signal.ITIMER_REAL, delay_s)
            signal.signal(signal.SIGALRM, lambda *_: die())
            deliver(url, f"r{number}")

        in_a_fork(work)
        first, second = outcome(url, f"r{number}"), outcome(url, f"r{number}")
        assert first == second
        assert int(counter.get(f"done:r{number}") or 0) <= 1
    _forget(counter)


def _forget(counter: object) -> None:
    names = counter.keys("done:*")  # type: ignore[attr-defined]  # a Redis client
    counter.delete(*names)  # type: ignore[attr-defined]  # as above
    counter.close()  # type: ignore[attr-defined]  # as above
