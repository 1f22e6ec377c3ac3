"""What the commit script costs: GET + commit against GET + a script that only SETs, in one run.

The goal is at most 1.15x at each size. Printed beside it: GET + plain SET, and the whole store (decode,
encode, scope index) as a task calls it.
"""

import random
import statistics
import time
from collections.abc import Callable
from typing import Final
from uuid import uuid4

from ditto_tasks.context.models import Context, parse_context
from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.models import Scope
from ditto_tasks.state.base import Operation
from ditto_tasks.state.encoding import encode_record, operations_key, state_key
from ditto_tasks.state.operations import LOG_TTL_MS, OPERATIONS_KEPT
from ditto_tasks.state.redis import RedisContextStore, StateClient, open_state_client
from ditto_tasks.state.scripted import TTL_MS
from ditto_tasks.state.scripts import StateScripts

SIZES_KB: Final = (1, 50, 500)
ROUNDS: Final = 400
SCOPE: Final = Scope(session_id="benchmark")
STORE_SCOPE: Final = Scope(session_id="benchmark of the store")
SCRIPT_KEY: Final = state_key(Scope(session_id="benchmark of a script"))
SET_KEY: Final = state_key(Scope(session_id="benchmark of SET"))
KEYS: Final = (state_key(SCOPE), operations_key(SCOPE))
SCOPE_TEXT: Final = '{"sessionId":"bench"}'  # as the log keeps it
SET_ONLY: Final = "redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1"
HASH: Final = "0" * 64

Step = Callable[[], object]


def context_of_size(size_kb: int) -> Context:
    """A context whose record is about that long, in items of 1 KB."""
    return parse_context({"items": [{"id": f"item-{n}", "content": "x" * 1_000} for n in range(size_kb)]})


def steps(client: StateClient, context: Context) -> dict[str, Step]:
    """One mutation in each form, on one scope."""
    commit = StateScripts.load(ttl_ms=TTL_MS, log_ttl_ms=LOG_TTL_MS, kept=OPERATIONS_KEPT).commit
    set_only = client.script_load(SET_ONLY)
    client.script_load(commit.text)
    store = RedisContextStore(client)
    version = store.compare_and_set(SCOPE, None, context).version
    record = encode_record(version, context, SCOPE)
    store.compare_and_set(STORE_SCOPE, None, context)
    current = [version]

    def under(version: str) -> bytes:
        return version.encode().join((record[:12], record[48:]))

    def get_and_commit() -> None:
        client.get(KEYS[0])
        old, new = current[0], str(uuid4())
        about = (f"op:{new[:32]}", HASH, "1")
        reply = client.evalsha(commit.sha1, 2, *KEYS, *about, SCOPE_TEXT, old, under(new))
        assert reply == 1
        current[0] = new

    def get_and_script() -> None:
        client.get(SCRIPT_KEY)
        client.evalsha(set_only, 1, SCRIPT_KEY, under(str(uuid4())), str(TTL_MS))

    def get_and_set() -> None:
        client.get(SET_KEY)
        client.set(SET_KEY, under(str(uuid4())), px=TTL_MS)

    def whole_store() -> None:
        stored = store.get(STORE_SCOPE)
        assert stored is not None
        operation = Operation(str(uuid4()), HASH, 1)
        store.commit(STORE_SCOPE, operation, expected_version=stored.version, next=stored.context)

    return {
        "GET + commit": get_and_commit,
        "GET + SET-only script": get_and_script,
        "GET + SET": get_and_set,
        "whole store": whole_store,
    }


def medians_ms(forms: dict[str, Step], rounds: int) -> dict[str, float]:
    """The median time of each form; they take turns in changing order, so that nothing favors one."""
    draw = random.Random(1)  # noqa: S311 -- only the order
    order = list(forms.items())
    times: dict[str, list[float]] = {name: [] for name in forms}
    for _ in range(rounds):
        draw.shuffle(order)
        for name, step in order:
            started = time.perf_counter()
            step()
            times[name].append((time.perf_counter() - started) * 1_000)
    return {name: statistics.median(taken) for name, taken in times.items()}


def main() -> None:
    """Print a table with one row a size."""
    print(
        f"{'record':>8} {'commit':>10} {'SET-only':>10} {'SET':>10} {'store':>10} {'ratio':>7} {'to SET':>7}"
    )
    with EmbeddedServer() as server:
        client = open_state_client(server.redis_url())
        for size_kb in SIZES_KB:
            client.flushall()
            commit, script, plain, store = medians_ms(
                steps(client, context_of_size(size_kb)), ROUNDS
            ).values()
            cells = "".join(f" {value:7.3f} ms" for value in (commit, script, plain, store))
            print(f"{size_kb:5} KB{cells} {commit / script:6.2f}x {commit / plain:6.2f}x")
        client.close()


if __name__ == "__main__":
    main()
