"""Many sessions at once, `ditto compress` as a child process, and what both left behind."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import redis

from ditto_tasks.canonical import scope_key
from ditto_tasks.context.models import Context
from ditto_tasks.models import Scope
from ditto_tasks.state.redis import RedisContextStore

ROOT = Path(__file__).parents[2]
SMALL, LARGE = 10, 60  # items of a session within budget, and of one over it
BUDGET = 30
TTL_MS = 3_600_000


def context_of(items: int, text: str = "x" * 200) -> Context:
    """A context of that many equal items."""
    return Context.parse({"items": [{"id": f"item-{number}", "content": text} for number in range(items)]})


def seed(client: "redis.Redis", sizes: Mapping[str, int], text: str = "x" * 200) -> None:
    """Store a context for each session; straight into the store, so that no operation is recorded."""
    store = RedisContextStore(client, ttl_ms=TTL_MS)
    for session, items in sizes.items():
        store.compare_and_set(Scope(session_id=session), None, context_of(items, text))


def mixed(prefix: str, count: int) -> dict[str, int]:
    """Sessions of which every fifth is over budget."""
    return {f"{prefix}{number}": LARGE if number % 5 == 0 else SMALL for number in range(count)}


def hash_of(session: str) -> str:
    return scope_key({"sessionId": session})


def raw_of(client: "redis.Redis", session: str) -> bytes | None:
    """The stored record, byte by byte."""
    return client.get(f"ditto:context:{hash_of(session)}")


def operations_of(client: "redis.Redis", session: str) -> int:
    """How many operations were ever recorded for a session."""
    found = client.hget(f"ditto:context:ops:{{ditto:context:{hash_of(session)}}}", "count")
    return int(found or 0)


def ttl_of(client: "redis.Redis", session: str) -> int:
    return client.pttl(f"ditto:context:{hash_of(session)}")


def start_ditto(env: Mapping[str, str], *arguments: str, cwd: Path) -> "subprocess.Popen[str]":
    """`ditto` with these arguments, running."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DITTO_")}
    return subprocess.Popen(
        [sys.executable, "-m", "ditto_tasks", *arguments],
        env={**kept, "PYTHONPATH": str(ROOT), **env},
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ditto(env: Mapping[str, str], *arguments: str, cwd: Path, code: int = 0) -> str:
    """What `ditto` printed, first to stdout and then to stderr; it has to end with this exit code."""
    with start_ditto(env, *arguments, cwd=cwd) as process:
        shown, errors = process.communicate(timeout=100)
    assert process.returncode == code, shown + errors
    return shown + errors


def rows_in(report: Path) -> list[dict[str, Any]]:
    """The complete lines of a report; a killed command may have written half of one."""
    lines: Sequence[str] = report.read_text("utf-8").split("\n")[:-1] if report.exists() else []
    return [json.loads(line) for line in lines]
